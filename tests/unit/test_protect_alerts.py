"""The rules for Prometheus of the documentation: each alarm has one, and a line that says what it means.

That what the rules ask for is told by members is tested where they tell it (``crates/replicator/src/metrics/text.rs``).
"""

import re
from pathlib import Path

import pytest
from schema_shape import stored

DOCS = Path(__file__).parents[2] / "docs"
RULES = (DOCS / "protect-alerts.yml").read_text()
EXPRESSIONS: dict[str, str] = dict(re.findall(r"^ +- alert: (\w+)\n +expr: (.+)$", RULES, re.MULTILINE))

OF_MEMBERS = [kind["const"] for kind in stored("members.schema.json")["status"]["$defs"]["AlarmKind"]["oneOf"]]
"""Those that a member raises; that it cannot be asked is noticed by who asks."""


def test_all_rules_are_read() -> None:
    assert len(EXPRESSIONS) == RULES.count("- alert: ") > 5
    assert all(line.isascii() and "\t" not in line for line in RULES.splitlines())


@pytest.mark.parametrize("kind", OF_MEMBERS)
def test_each_alarm_of_a_member_has_a_rule(kind: str) -> None:
    selectors = re.findall(r"stealtime_protect_alarm(?:\{alarm=\"([\w-]+)\"\})? == 1", " ".join(EXPRESSIONS.values()))
    assert {"", kind} & set(selectors)


@pytest.mark.parametrize("kind", [*OF_MEMBERS, "control"])
def test_each_alarm_has_a_line_that_says_what_it_means(kind: str) -> None:
    said = " ".join((DOCS / "protect.md").read_text().split())
    paragraph = said[said.index("Such an alarm is ") : said.index("has rules for Prometheus")]
    assert re.search(rf"`{kind}` \([^)]+\)", paragraph)


def test_whoever_does_not_answer_is_noticed() -> None:
    assert EXPRESSIONS["StealtimeMemberSilent"] == 'up{job="stealtime-protect"} == 0'
    assert "job_name: stealtime-protect" in RULES


def test_a_machine_of_which_nobody_says_anything_is_noticed() -> None:
    # What is compared with a number is empty once all who told it are gone.
    told, _, missing = EXPRESSIONS["StealtimeMachineLost"].partition(" unless ")
    assert "last_over_time(stealtime_protect_term[" in told
    assert missing == "max by (vm) (stealtime_protect_protected)"


def test_certificates_are_told_of_a_month_a_week_and_a_day_before_they_end() -> None:
    days = re.findall(r"certificates_end_in_seconds < (\d+) \* 86400", " ".join(EXPRESSIONS.values()))
    assert days == ["30", "7", "1"]
