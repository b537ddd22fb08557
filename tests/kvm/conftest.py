"""The machine in which KVM runs, booted once, and what was measured in it."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attributed import LONG_NS, Attributed
from campaigns import CAMPAIGNS
from first_level import EXCHANGE, KERNEL, FirstLevel, first_level

from stealtime.lab.image.kernel import find_kernel
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.attribution.attribute import attribute_trial
from stealtime.vocabulary.errors import StealtimeError

_MEASURED_WITHIN_S = 600.0
_FAILED_OVER_WITHIN_S = 600.0
FAILOVERS = {
    "userfault": ["userfault", "1", "kill-qemu", "power-off"],
    "soft-dirty": ["soft-dirty", "2", "kill-member", "cut-link"],
}
"""Tracker, virtual CPUs, faults."""


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip where the first level cannot be had, with the reason."""
    if os.geteuid() != 0:
        pytest.skip("only root may read all that the first level needs of this host")
    if shutil.which("busybox") is None:
        pytest.skip("the program busybox is not installed (package busybox-static)")
    try:
        # Its own, and that of protected guests: in there is no network to fetch it over.
        for kernel in (KERNEL, "cloud", "rt"):
            find_kernel(kernel)
    except StealtimeError as error:
        pytest.skip(f"no first level here: {error.message}")


@pytest.fixture(scope="session")
def machine(possible: None, tell: Callable[[str], None]) -> Iterator[FirstLevel]:
    """The first level; its folder of exchange lives as long."""
    began_s = time.monotonic()
    with first_level() as booted:
        tell(f"KVM, first level (counts and truth, no times): up after {time.monotonic() - began_s:.1f} s")
        yield booted
        _tell_panics(booted, tell)


@pytest.fixture(scope="session")
def sound_machine(possible: None, tell: Callable[[str], None]) -> Iterator[FirstLevel]:
    """A first level whose KVM has no nested paging: with it guests break there, protected or not (docs/kvm.md)."""
    began_s = time.monotonic()
    with first_level(arguments="kvm_amd.npt=0") as booted:
        tell(f"KVM without nested paging, first level: up after {time.monotonic() - began_s:.1f} s")
        assert booted.run("cat /sys/module/kvm_amd/parameters/npt", within_s=10.0).strip() == "N"
        yield booted
        _tell_panics(booted, tell)


def _tell_panics(booted: FirstLevel, tell: Callable[[str], None]) -> None:
    if booted.boots > 1:
        tell(f"KVM, first level: its kernel panicked, and it was booted {booted.boots} times")


@pytest.fixture(scope="session", params=FAILOVERS)
def failover(sound_machine: FirstLevel, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a client saw of failovers, for each way that written pages are found."""
    program = [".venv/bin/python", "tests/kvm/failovers_inside.py"]
    said = sound_machine.run([*program, *FAILOVERS[request.param]], within_s=_FAILED_OVER_WITHIN_S)
    return {"tracker": request.param, **json.loads(said.splitlines()[-1])}


@pytest.fixture(scope="session")
def runs(machine: FirstLevel, tell: Callable[[str], None]) -> dict[str, Run]:
    """What each campaign gave, measured one after the other."""
    (machine.exchange / "campaigns.json").write_text(json.dumps(list(CAMPAIGNS.values())))
    began_s = time.monotonic()
    program = [".venv/bin/python", "tests/kvm/inside.py", f"{EXCHANGE}/campaigns.json", f"{EXCHANGE}/runs"]
    said = machine.run(program, within_s=_MEASURED_WITHIN_S)
    tell(f"KVM, measured {', '.join(CAMPAIGNS)}: {time.monotonic() - began_s:.0f} s")
    folders = [line.strip() for line in said.splitlines() if line.startswith(str(EXCHANGE))]
    assert len(folders) == len(CAMPAIGNS), said
    names = [folder.rpartition("/")[2] for folder in folders]
    return {one: Run.open(machine.exchange / "runs" / name) for one, name in zip(CAMPAIGNS, names, strict=True)}


@pytest.fixture(scope="session")
def trial_of(runs: dict[str, Run]) -> Callable[[str, str], Trial]:
    """Give the trial of a campaign's probe, which must have been measured."""

    def find(campaign: str, probe: str = "tick") -> Trial:
        (trial,) = [one for one in runs[campaign].trials if one.record.cell.probe == probe]
        assert trial.record.outcome is not None, trial.record.failure
        assert all(one.level == "limits" for one in trial.record.outcome.findings), trial.record.outcome.findings
        return trial

    return find


@pytest.fixture(scope="session")
def attributed_of(trial_of: Callable[[str, str], Trial]) -> Callable[..., Attributed]:
    """Split the ticks of a campaign."""

    def split(campaign: str) -> Attributed:
        trial = trial_of(campaign, "tick")
        return Attributed(trial, attribute_trial(trial), attribute_trial(trial, threshold_ns=LONG_NS))

    return split
