"""The exporter as a service: its unit under systemd, in its sandbox, beside a guest that KVM really runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from first_level import first_level

pytestmark = [
    pytest.mark.kvm,
    pytest.mark.truth,
    pytest.mark.skipif(not Path("/lib/systemd/systemd").exists(), reason="this host has no systemd"),
    pytest.mark.skipif(
        any(Path(__file__).is_relative_to(hidden) for hidden in ("/tmp", "/var/tmp", "/home", "/root")),
        reason="the unit does not see the folder of this tree",
    ),
]

_SEEN_WITHIN_S = 480.0
_ITS_CAPABILITIES = (1 << 2) | (1 << 19)
"""CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (linux/capability.h)."""
_MEMORY_MAX_BYTES = 256 << 20


@pytest.fixture(scope="module")
def seen(possible: None, tell: Callable[[str], None]) -> dict[str, Any]:
    with first_level(arguments="stealtime.systemd") as booted:
        said = booted.run([".venv/bin/python", "tests/kvm/exporter_unit_inside.py"], within_s=_SEEN_WITHIN_S)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    tell(f"exporter under systemd: {found['memory_bytes'] / 2**20:.0f} MiB, stopped {found['stopped']}")
    return found


def test_a_user_of_its_own_sees_the_guest_of_another_one_and_judges_it(seen: dict[str, Any]) -> None:
    status = dict(line.split(":\t", 1) for line in seen["status"].splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split()
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {int(status[name], 16) for name in ("CapEff", "CapBnd")} == {_ITS_CAPABILITIES}
    # One verdict of all holds, and it is of what was counted.
    assert sum(seen["verdicts"].values()) == 1.0, seen["verdicts"]
    assert len(seen["run_s"]) == 1
    assert min(seen["run_s"].values()) > 0
    # The other one, of another program's name, is found by what it holds, which only CAP_SYS_PTRACE lets it see.
    assert len(seen["info"]) == len(("named", "renamed")), seen["info"]
    assert 0 < seen["memory_bytes"] < _MEMORY_MAX_BYTES


def test_it_is_started_anew_where_it_dies_and_ends_in_time_when_it_is_stopped(seen: dict[str, Any]) -> None:
    assert seen["active"] == {"ActiveState": "active", "NRestarts": "1"}
    assert len(seen["again"]) == 1
    # A SIGTERM is an end as wanted: systemd had neither to kill it nor sees a failure.
    assert (seen["stopped"]["ActiveState"], seen["stopped"]["Result"]) == ("inactive", "success")
    assert seen["stopped"]["after_s"] < 30
    assert seen["kept"] == ["current.jsonl"], "it keeps verdicts where systemd lets it write"
    assert "named" in {one["name"] for one in seen["history"]["subjects"]}
