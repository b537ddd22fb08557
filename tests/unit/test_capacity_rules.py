"""The file of rules: what is wrong in one is said with its line, and the builtin one names its sources."""

from pathlib import Path

import pytest
from synthetic_use import RULE

from stealtime.capacity.rules import builtin_text, load_rules, read_rules
from stealtime.vocabulary.errors import UsageError


def test_every_builtin_rule_has_a_source_and_a_date() -> None:
    book = load_rules()
    assert {rule.verdict for rule in book.rules} == {
        "not judged", "under-provisioned guest", "over-committed host", "over-provisioned host", "misplaced guests"
    }  # fmt: skip
    assert all(rule.source and rule.date for rule in book.rules)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("id =", "idd =", "unknown key 'idd' in [[rules]] 1", "did you mean 'id'"),
        ('id = "mine"', "", "the key 'id' in [[rules]] 1 is missing", None),
        ("over-committed host", "overcommitted", "verdict = 'overcommitted' in [[rules]] 1: it must be", None),
        (
            "vcpu_wait_percent",
            "vcpu_wait",
            "figure = 'vcpu_wait' in [[rules.conditions]] 1 in ",
            None,
        ),
        ("above = 1", "above = 1, below = 2", "needs one of `above` and `below`", None),
        (", above = 1", "", "needs one of `above` and `below`", None),
        ("above = 1", 'above = "x"', "above = 'x' in [[rules.conditions]] 1 in [[rules]] 1: it must be a number", None),
        ('about = "guest"', 'about = "host"', "vcpu_wait_percent is no figure of a host", None),
        ("move it", "move {gest}", "{gest} is nothing that is known", None),
        ("move it", "move {", "is no template", None),
        ("schema_version = 1", "schema_version = 2", "schema_version", None),
        ("[[rules]]", "[[rules]", "is not TOML", "https://toml.io"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, message: str, hint: str | None) -> None:
    assert old in RULE
    file = tmp_path / "mine.toml"
    file.write_text(RULE.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_rules(file)
    assert message in caught.value.message
    assert str(file) in caught.value.message
    if hint is not None and "TOML" not in message:
        assert hint in (caught.value.hint or "")


def test_a_rule_may_not_say_of_the_host_what_only_a_guest_can_be() -> None:
    text = RULE.replace('"guest"', '"host"').replace("over-committed host", "under-provisioned guest")
    with pytest.raises(UsageError, match="cannot say"):
        read_rules(text.replace("vcpu_wait_percent", "cpu_busy_percent"), "mine.toml")


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two rules are called 'mine'"):
        read_rules(RULE + RULE.replace("schema_version = 1", ""), "mine.toml")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file") as caught:
        load_rules(tmp_path / "none.toml")
    assert "--print-rules" in (caught.value.hint or "")


def test_the_builtin_rules_can_be_printed_and_given_back(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(builtin_text())
    assert load_rules(file) == load_rules()


def test_rules_whose_limits_nobody_held_against_guests_say_so() -> None:
    uncalibrated = {rule.id for rule in load_rules(None).rules if rule.uncalibrated}
    assert uncalibrated == {"io-wait", "memory-pressure", "memory-overcommitted", "guest-swaps"}
    assert all("alibrated" in rule.source for rule in load_rules(None).rules if rule.uncalibrated)
