"""What each of the three KVM platforms says of itself, measured where KVM really runs."""

from collections.abc import Callable

import pytest
from first_level import FirstLevel

from stealtime.store.run import Run, Trial

pytestmark = [pytest.mark.kvm, pytest.mark.truth]

PLATFORMS = {"exits": "qemu-kvm-paravirt", "quota": "qemu-kvm-hyperv", "plain": "qemu-kvm-emulated"}


CLOCKS = {
    "exits": {"kvm-clock", "tsc"},
    "quota": {"hyperv_clocksource_msr", "hyperv_clocksource_tsc_page", "tsc"},
    "plain": {"acpi_pm"},
}


@pytest.mark.parametrize("campaign", PLATFORMS)
def test_a_guest_of_each_platform_runs_under_kvm(trial_of: Callable[[str], Trial], campaign: str) -> None:
    trial = trial_of(campaign)
    assert trial.record.cell.platform == PLATFORMS[campaign]
    assert trial.record.machine is not None
    assert trial.record.machine.boot.facts["accelerator"] == "kvm"
    assert trial.record.outcome is not None
    assert trial.record.outcome.tracing is not None
    assert trial.record.outcome.tracing.lost == 0
    assert trial.record.host_tracing is not None
    assert trial.record.host_tracing.lost == 0


@pytest.mark.parametrize("campaign", CLOCKS)
def test_each_platform_keeps_its_time_as_it_should(trial_of: Callable[[str], Trial], campaign: str) -> None:
    record = trial_of(campaign).record
    assert record.machine is not None
    assert str(getattr(record.machine.agent_facts["clocksource"], "value", "")) in CLOCKS[campaign]


def test_what_is_left_out_of_hyperv_stands_in_the_run(trial_of: Callable[[str], Trial]) -> None:
    record = trial_of("quota").record
    assert record.machine is not None
    facts = record.machine.boot.facts
    assert "hv-time=on" in facts["hyperv_features"]
    assert "hv-xmm-input=on" in facts["hyperv_features"]
    assert facts["hyperv_features_left_out"] == "hv-avic: KVM uses no AVIC or APICv here"


def test_a_missing_enlightenment_is_left_out_and_the_guest_boots(machine: FirstLevel, runs: dict[str, Run]) -> None:
    said = machine.run([".venv/bin/python", "tests/kvm/without_a_leaf.py"], within_s=240.0)
    assert "hv-stimer: this host's KVM does not have it" in said
    assert "hv-stimer-direct: it needs hv-stimer" in said
    assert "the agent answered" in said
