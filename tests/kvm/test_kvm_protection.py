"""Guests under KVM, protected: failovers, and each epoch held against all memory, with each way to find written pages.

Soft-dirty bits and a userfaultfd that tells of QEMU's own writes are what only such a kernel has.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from first_level import FirstLevel, first_level
from two_hosts import assert_unharmed

from stealtime.lab.image.kernel import find_kernel

pytestmark = pytest.mark.kvm

EPOCHS = 50
"""Of each comparison; of the four whose tracker protects pages, 200 together."""
_COMPARED_WITHIN_S = 1500.0
"""A machine with nothing else to do takes half of what one with load takes: 586 s."""
_UNITS_WITHIN_S = 1200.0
_TOLD = re.compile(
    r"^---- (\w+) stdout ----$(?:(?!^----).*\n)*"
    r"^page faults that KVM handled: median (\d+) an epoch\n(\d+) epochs, (\d+) pages written, 0 missed$",
    re.MULTILINE,
)
_REPOSITORY = Path(__file__).parents[2]

SLOWEST = 0.3
"""Of the host's time: the guest stands still in each outage, and for a while in each epoch."""
FASTEST = {"monotonic_s": 1.1, "raw_s": 1.0}
"""Of the host's time: its agent steers the first one, by 10 % at most, to make good what the guest stood still."""


@pytest.mark.by_request
def test_the_guest_s_clocks_never_jump(failover: dict[str, Any], tell: Callable[[str], None]) -> None:
    clocks = failover["clocks"]
    assert len(clocks) > 1
    for before, after in pairwise(clocks):
        elapsed_s = after["host_s"] - before["host_s"]
        bound_s = (before["bound_s"] + after["bound_s"]) / 2
        for clock, fastest in FASTEST.items():
            gained_s = after[clock] - before[clock]
            # Over a failover the guest goes on with the counter that it was saved with: not back, and not ahead.
            assert SLOWEST * elapsed_s - bound_s < gained_s < fastest * elapsed_s + bound_s, (clock, before, after)
    gained_s = clocks[-1]["raw_s"] - clocks[0]["raw_s"]
    elapsed_s = clocks[-1]["host_s"] - clocks[0]["host_s"]
    tell(f"KVM, {failover['tracker']}: the guest's counter gained {gained_s:.1f} s in {elapsed_s:.1f} s of its hosts")


@pytest.mark.by_request
def test_what_a_client_saw_outlives_its_host(failover: dict[str, Any], tell: Callable[[str], None]) -> None:
    seen = failover["seen"]
    assert failover["resets"] == [], "the guest began anew by itself"
    assert_unharmed(seen)
    assert failover["mismatches"] == 0, "its disk has other values than its memory"
    # A cut link may leave the guest where it is.
    assert failover["moved"] >= failover["faults"] - 1
    assert failover["status"]["tracker"] == failover["tracker"]
    tell(f"KVM, {failover['tracker']}: {failover['faults']} faults, {seen['acknowledged']} acknowledged, none missing")


@pytest.mark.by_request
@pytest.mark.skipif(not Path("/lib/systemd/systemd").exists(), reason="this host has no systemd")
def test_the_units_do_in_their_sandbox_what_they_are_for(possible: None, tell: Callable[[str], None]) -> None:
    with first_level(arguments="kvm_amd.npt=0 stealtime.systemd") as booted:
        said = booted.run([".venv/bin/python", "tests/kvm/units_inside.py"], within_s=_UNITS_WITHIN_S)
    seen = json.loads(said.splitlines()[-1])
    assert (seen["started"]["host"], seen["moved"]["host"]) == ("a", "b"), "stopping the unit moves the machine"
    assert seen["taken"]["resume_ns"] > 0, "the standby of stealtime-host took it over"
    assert seen["is_another_daemon"], "systemd has started it anew for the upgrade"
    assert (seen["left"]["host"], seen["left"]["protected"]) == ("b", False), "stopping stealtime-leave moves it again"
    assert seen["back"]["host"] == "b", "and when it is started again, the host takes the standby"
    assert set(seen["active"]["stealtime-host"]) == {"NRestarts=0", "Result=success", "ActiveState=active"}, seen
    assert "Result=success" in seen["active"]["stealtime-vm@counter"], seen
    confined = dict(line.split(":\t", 1) for line in seen["daemon"].splitlines())
    assert (confined["NoNewPrivs"], confined["Seccomp"]) == ("1", "2"), confined
    tell(f"units under systemd: {seen['active']}, capabilities {confined['CapBnd']}")


COMPARED = {
    "a_guest_with_one_cpu_goes_on": "userfaultfd, 1 virtual CPU",
    "a_guest_with_two_cpus_goes_on": "userfaultfd, 2 virtual CPUs",
    "pages_told_by_soft_dirty_do_as_well_with_one_cpu": "soft-dirty, 1 virtual CPU",
    "pages_told_by_soft_dirty_do_as_well_with_two_cpus": "soft-dirty, 2 virtual CPUs",
    "pages_that_are_found_by_comparison": "comparison, 1 virtual CPU",
}
"""Tests of crates/capture, and what they are of; the last one protects no page anew."""


@pytest.fixture(scope="module")
def comparing_program() -> Path:
    """The tests of crates/capture that boot guests, built on this host."""
    cargo = shutil.which("cargo", path=f"{Path.home() / '.cargo/bin'}:/usr/local/bin:/usr/bin")
    if cargo is None:
        pytest.skip("cargo is not installed")
    argv = [cargo, "test", "--workspace", "--locked", "--profile", "bench"]
    argv += ["--test", "failover", "--no-run", "--message-format=json"]
    built = subprocess.run(argv, cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    (program,) = [
        one["executable"] for one in messages if one.get("executable") and one["target"]["name"] == "failover"
    ]
    return Path(program)


@dataclass(frozen=True)
class Compared:
    """What one test of crates/capture said."""

    page_faults: int
    """That KVM handled in an epoch, the median."""
    epochs: int
    pages: int
    """Written in all epochs."""


@pytest.fixture(scope="module")
def compared(sound_machine: FirstLevel, comparing_program: Path) -> dict[str, Compared]:
    """All comparisons, by test; they run two at a time."""
    kernel = find_kernel("cloud")
    environment = {
        "STEALTIME_ACCELERATOR": "kvm",
        "STEALTIME_CAPTURE_EPOCHS": str(EPOCHS),
        "STEALTIME_KERNEL": str(kernel.boot_image),
        "STEALTIME_KERNEL_MODULES": str(kernel.modules_folder),
    }
    argv = ["env", "-C", "crates/capture", *(f"{name}={value}" for name, value in environment.items())]
    argv += ["timeout", f"{_COMPARED_WITHIN_S:g}", str(comparing_program)]
    argv += ["--ignored", "--show-output", "--test-threads=2", *COMPARED]
    # What hangs is ended inside, so that the machine takes further commands.
    said = sound_machine.run(argv, within_s=_COMPARED_WITHIN_S + 30.0)
    assert f"test result: ok. {len(COMPARED)} passed" in said, said
    found = {test: Compared(*map(int, figures)) for test, *figures in _TOLD.findall(said)}
    return {short: one for short in COMPARED for test, one in found.items() if short in test}


@pytest.mark.by_request
@pytest.mark.parametrize("test", COMPARED)
def test_no_page_is_missed(compared: dict[str, Compared], tell: Callable[[str], None], test: str) -> None:
    one = compared[test]
    assert one.epochs == EPOCHS
    assert one.pages > EPOCHS
    tell(
        f"KVM, {COMPARED[test]}: {one.epochs} epochs, {one.pages} pages written, none missed;"
        f" {one.page_faults} page faults an epoch"
    )


@pytest.mark.by_request
@pytest.mark.parametrize("test", ["a_guest_with_one_cpu_goes_on", "pages_told_by_soft_dirty_do_as_well_with_one_cpu"])
def test_pages_that_are_protected_anew_cost_faults(compared: dict[str, Compared], test: str) -> None:
    one, unprotected = compared[test], compared["pages_that_are_found_by_comparison"]
    # Each page that is written anew faults once more; the guest's own faults are in both counts.
    assert one.page_faults > unprotected.page_faults + one.pages / one.epochs, (one, unprotected)


@pytest.mark.truth
def test_the_demonstration_loses_nothing(sound_machine: FirstLevel, tell: Callable[[str], None]) -> None:
    program = ".venv/bin/stealtime protect demo --accelerator kvm --interval 500ms --json"
    said = sound_machine.run(f"{program} 2>/exchange/demo.err || {{ cat /exchange/demo.err; exit 1; }}", within_s=300.0)
    document = json.loads(said)
    assert document["is_whole"] is True, document
    acknowledged = document["client"]["acknowledged"]
    assert acknowledged > 0
    tell(f"KVM, protect demo: {acknowledged} acknowledged, none missing")
