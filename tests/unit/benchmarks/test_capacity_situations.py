"""The builtin rules, held against recorded guests whose stretch was measured inside them."""

import json
from typing import Any

import pytest
from capacity_situations.replaying import read, written
from capacity_situations.situations import HELD_OUT, SITUATIONS
from capacity_situations.tally import Tally, tallied
from capacity_verdicts import DATA, lines_of, told

from stealtime.capacity.rules import builtin_text, load_rules, read_rules

LINES = lines_of(DATA)
RULES = load_rules()


def test_enough_situations_are_recorded_and_a_third_is_held_out() -> None:
    names = {line["situation"] for line in LINES}
    assert len(names) == len(LINES) >= 40
    assert names <= {one.name for one in SITUATIONS}
    assert {line["situation"] for line in LINES if line["held_out"]} == HELD_OUT & names
    assert 3 * len(HELD_OUT) == len(SITUATIONS)
    assert len([name for name in names if "burst" in name]) >= 12
    assert {line["situation"].partition(":")[0] for line in LINES} == {"uml", "qemu-tcg-paravirt"}


def test_verdicts_on_recorded_guests_hold_what_is_claimed() -> None:
    text, contradicted = told(LINES, RULES)
    assert not contradicted, "\n".join(text)


def test_six_guests_that_work_for_90_ms_of_each_second_on_one_cpu_are_seen() -> None:
    (line,) = [one for one in LINES if one["situation"] == "uml: 6 x burst-90-of-1000 on last"]
    assert min(one["stretch"] for one in line["guests"]) > 1.25
    found = tallied([line], RULES)
    assert (found.hosts.due, found.hosts.found) == (1, 1)
    assert found.guests.missed == 0


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        # Each limit the other way: that the data decides on it was seen.
        ('"vcpu_wait_share_percent", above = 25', '"vcpu_wait_share_percent", above = 60', "missed"),
        ('"vcpu_wait_share_percent", above = 33', '"vcpu_wait_share_percent", above = 60', "missed"),
        ('"vcpu_wait_share_percent", above = 25', '"vcpu_wait_share_percent", above = 5', "alarms"),
        ('"vcpu_wanted_percent", above = 10', '"vcpu_wanted_percent", above = 1', "alarms"),
    ],
)
def test_another_limit_is_worse(old: str, new: str, what: str) -> None:
    def wrong(text: str) -> int:
        tally: Tally = tallied(LINES, read_rules(text, "other rules")).guests
        return int(getattr(tally, what))

    text = builtin_text()
    assert old in text
    assert wrong(text.replace(old, new)) > wrong(text)


def test_what_was_written_is_read() -> None:
    for line in LINES[:: len(LINES) // 8]:
        for use, as_written in zip(read(line), line["uses"], strict=True):
            numbers = {key: key[0] - 1 for key in use.guests}
            again: Any = json.loads(json.dumps(written(use, numbers)))
            assert again == as_written
