"""KVM's own count of exits beside that of the host's trace, on real guests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from counted_exits import exits_of
from machines import NAMES, needs_root, require_usable

from stealtime.campaigns.events import Event
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.session import Order, execute, prepare
from stealtime.lab.platforms.kvm_counters import CountersGained
from stealtime.store.run import Run, Trial
from stealtime.vocabulary.readings import Absent, Value

pytestmark = [pytest.mark.guest, pytest.mark.beside]

UNDER_KVM = [name for name in NAMES if name.startswith("qemu-kvm-")]


class _Unseen:
    def on_event(self, event: Event) -> None:
        """Nobody looks."""


async def measured(platform: str, folder: Path, tracing: str) -> Trial:
    """Measure one cell whose guest sleeps a thousand times a second."""
    document = {
        "name": "counters",
        "platforms": [platform],
        "tracing": tracing,
        "probes": [{"probe": "wakeup", "interval": "1ms", "duration": "500ms"}],
    }
    order = Order(campaign=Campaign.model_validate(document), runs_folder=folder, command_line=("counters",))
    finished = await execute(order, await prepare(order), _Unseen())
    (trial,) = Run.open(finished.folder).trials
    assert trial.record.outcome is not None, trial.record.failure
    return trial


def counted(counters: CountersGained, name: str) -> int:
    reading = counters.total[name]
    assert isinstance(reading, Value), reading
    assert isinstance(reading.value, int)
    return reading.value


@needs_root
@pytest.mark.parametrize("platform", UNDER_KVM)
async def test_kvm_counts_the_exits_that_the_trace_shows(
    platform: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await require_usable(platform)
    exits = exits_of(await measured(platform, tmp_path, "on"))
    tell(f"{platform}: {exits}")
    assert exits.agree, exits


@pytest.mark.parametrize("platform", UNDER_KVM)
async def test_a_guest_that_sleeps_halts_and_is_waited_for(platform: str, tmp_path: Path) -> None:
    await require_usable(platform)
    counters = (await measured(platform, tmp_path, "off")).record.hypervisor_counters
    assert isinstance(counters, CountersGained), counters
    exits, halts, wait_ns = (counted(counters, name) for name in ("exits", "halt_exits", "halt_wait_ns"))
    # How many of a thousand sleeps a second are halts depends on how fast the host is.
    assert 0 < halts <= exits
    assert wait_ns > 0


async def test_without_kvm_the_reason_is_told(tmp_path: Path) -> None:
    trial = await measured("native", tmp_path, "off")
    assert trial.record.hypervisor_counters == Absent(absent="natively there is no hypervisor of ours")
