"""The counters of ``stealtime advise`` where KVM is real."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from first_level import FirstLevel

pytestmark = [pytest.mark.kvm, pytest.mark.truth]

_READ_WITHIN_S = 180.0


@pytest.fixture(scope="module")
def told(machine: FirstLevel, tell: Callable[[str], None]) -> dict[str, Any]:
    said = machine.run([".venv/bin/python", "tests/kvm/capacity_inside.py"], within_s=_READ_WITHIN_S)
    read: dict[str, Any] = json.loads(said.splitlines()[-1])
    tell(f"KVM, capacity: exits {read['exits']}, per second {read['named']['per_second']['exits']}")
    return read


def test_virtual_cpus_are_found_by_name_by_their_time_of_a_guest_and_under_another_program(
    told: dict[str, Any],
) -> None:
    for name in ("named", "nameless", "renamed"):
        assert told[name]["unreadable"] is None, told
        assert [number for number, _ in told[name]["vcpus"]] == [0, 1], told
        assert told[name]["threads"] > 2


def test_qmp_and_debugfs_tell_the_same_exits(told: dict[str, Any]) -> None:
    # debugfs adds up all virtual CPUs and is read a moment later.
    qmp, (debugfs,) = sum(told["exits"]["qmp"]), told["exits"]["debugfs"]
    assert 0 < qmp <= debugfs, told
    assert told["named"]["per_second"]["exits"]["value"] > 0
    # The other one has no monitor: debugfs alone.
    assert told["nameless"]["per_second"]["exits"]["value"] > 0


def test_the_balloon_is_absent_where_there_is_none(told: dict[str, Any]) -> None:
    assert "absent" in told["named"]["balloon_bytes"]
