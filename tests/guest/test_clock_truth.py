"""A machine whose second is not the host's is found, and no sound one is called wrong.

The wrong second is put in where each platform takes it from: guests under TCG are told a wrong rate of the host's
counter, a User-Mode Linux kernel gets a host's clock that runs fast, and natively, where both clocks are one, the
control plane's own readings are made to run slow. So also where a guest puts a small error right by itself, and for
``emulated``, which keeps its time with a device of QEMU instead of the counter.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from machines import needs_root, require_usable
from truth import some_of

from stealtime.campaigns.events import Event
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.session import Order, execute, prepare
from stealtime.lab.platforms import host_clock
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run
from stealtime.wire import connection

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.asyncio(loop_scope="session"), needs_root]

WRONG_PPM = (100_000, 1_000)
WRONG_RATE_PPM = (100_000, 12_000)
"""Linux itself puts right what is less than 1 % off of a rate that it is told (``tsc_refine_calibration_work()``)."""
LONG_ENOUGH = {100_000: "1s", 12_000: "2s", 1_000: "5s"}
"""How long a trial must be to show that a second is so many ppm off: over 8 s the bound is 33 to 85 ppm in guests."""
SOUND_TRIALS = int(os.environ.get("STEALTIME_CLOCK_TRIALS", "2"))
SHIM = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* CLOCK_MONOTONIC, as a program sees it, runs PPM faster than the kernel's from its first reading on. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static long long begin;
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_MONOTONIC) {
        long long ns = now->tv_sec * 1000000000LL + now->tv_nsec;
        if (!begin) begin = ns;
        ns += (ns - begin) / 1000000 * PPM;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}
"""


class Unseen:
    def on_event(self, event: Event) -> None:
        """Nobody looks."""


async def measure(
    platform: str, folder: Path, duration: str, probes: tuple[str, ...] = ("tick",), repetitions: int = 1
) -> list[TrialRecord]:
    """Measure the way a user does."""
    await require_usable(platform)
    tables = [{"probe": name, "duration": duration} for name in probes]
    document: dict[str, Any] = {"platforms": [platform], "probes": tables, "repetitions": repetitions}
    campaign = Campaign.model_validate({"name": "clock", **document})
    order = Order(campaign=campaign, runs_folder=folder, command_line=("clock",))
    finished = await execute(order, await prepare(order), Unseen())
    return [trial.record for trial in Run.open(finished.folder).trials]


def assert_all_are_wrong(records: list[TrialRecord], tell: Callable[[str], None]) -> None:
    assert records
    for record in records:
        assert record.clocks is not None, record.failure
        assert record.outcome is not None
        tell(f"{record.trial_id}: {record.clocks.host.state}: {record.clocks.host.reason}")
        assert record.clocks.host.state == "disagreed", record.clocks
        assert "host_clock_disagrees" in [one.code for one in record.outcome.findings if one.level == "invalidates"]
        # The machine itself cannot know; but for User-Mode Linux, whose kernel and counter may part on such a clock.
        assert record.cell.platform == "uml" or record.clocks.kernel.state != "disagreed", record.clocks


@pytest.mark.parametrize("ppm", some_of(WRONG_RATE_PPM, 12_000))
async def test_a_guest_that_was_told_a_wrong_rate_is_invalid(
    ppm: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    true_khz = host_clock.host_tsc_khz(find_agent())
    assert true_khz is not None
    told = host_clock.HostClock(schema_version=1, tsc_hz=true_khz * 1000 * (1 - ppm / 1e6), tsc_hz_source="made wrong")
    remembered = tmp_path / "rate.json"
    remembered.write_text(told.model_dump_json())
    monkeypatch.setattr(host_clock, "remembered_rate", lambda: remembered)
    assert_all_are_wrong(await measure("qemu-tcg-paravirt", tmp_path, LONG_ENOUGH[ppm]), tell)


def build_fast_clock(ppm: int, tmp_path: Path) -> Path:
    """Build a library that makes the clock of the program that it is preloaded into run so many ppm fast."""
    source, library = tmp_path / "fast_clock.c", tmp_path / "fast_clock.so"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", f"-DPPM={ppm}", "-o", library, source], check=True, timeout=60)
    return library


@pytest.mark.parametrize("ppm", some_of(WRONG_PPM, 100_000))
async def test_a_user_mode_kernel_on_a_fast_clock_is_invalid(
    ppm: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    # Of what is started only the kernel is linked dynamically and keeps a clock of its own.
    monkeypatch.setenv("LD_PRELOAD", str(build_fast_clock(ppm, tmp_path)))
    assert_all_are_wrong(await measure("uml", tmp_path, LONG_ENOUGH[ppm]), tell)


@pytest.mark.parametrize(
    ("platform", "ppm"),
    some_of(
        [("native", 100_000), ("native", 1_000), ("qemu-tcg-emulated", 100_000), ("qemu-tcg-paravirt", 1_000)],
        ("native", 1_000),
    ),
)
async def test_a_second_that_is_not_the_control_planes_is_invalid(
    platform: str, ppm: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def slow_ns(clock: int) -> int:
        return begin_ns + round((time.clock_gettime_ns(clock) - begin_ns) * (1 - ppm / 1e6))

    clocks = SimpleNamespace(clock_gettime_ns=slow_ns, CLOCK_MONOTONIC_RAW=time.CLOCK_MONOTONIC_RAW)
    monkeypatch.setattr(connection, "time", clocks)
    assert_all_are_wrong(await measure(platform, tmp_path, LONG_ENOUGH[ppm]), tell)


@pytest.mark.parametrize(
    "platform", some_of(["native", "uml", "qemu-tcg-paravirt", "qemu-tcg-emulated"], "native", "uml")
)
async def test_no_sound_clock_is_called_wrong(platform: str, tmp_path: Path, tell: Callable[[str], None]) -> None:
    records = await measure(platform, tmp_path, "300ms", ("tick", "wakeup"), SOUND_TRIALS)
    agreements = [record.clocks.host for record in records if record.clocks is not None]
    assert len(agreements) == 2 * SOUND_TRIALS
    bounds = sorted(one.error_ppm or 0.0 for one in agreements)
    apart = max(abs(one.disagreement_ppm or 0.0) for one in agreements)
    states = {
        state: sum(one.state == state for one in agreements) for state in sorted({one.state for one in agreements})
    }
    tell(
        f"{platform}: {states} of {len(agreements)} trials of 0.3 s; apart at most {apart:.0f} ppm, bound "
        f"{bounds[0]:.0f} to {bounds[-1]:.0f} ppm (median {bounds[len(bounds) // 2]:.0f})"
    )
    for record in records:
        assert record.clocks is not None
        assert record.clocks.host.state != "disagreed", record.clocks
        assert record.clocks.kernel.state != "disagreed", record.clocks
        if platform == "native":
            assert record.clocks.host.state == "not independent"
        # What the kernel keeps its time with now, not what it began with.
        assert record.outcome is not None
        assert "tsc-early" not in str(record.outcome.clock.facts["clocksource"])
