"""The probes against the tools that everybody uses, on the same CPU, in turns.

What is compared is the maximum of each short run, the figure for which these tools are run. Maxima have heavy tails, so
neither their mean nor a t-test says anything; the Mann-Whitney test asks only whether the maxima of one tool tend to be
larger than the other's, by ranks, which is what "within the spread of either tool with itself" means. With six runs
each, a tool whose maxima are nearly all larger than the other's is caught (p < 0.01), a difference that is smaller than
the runs' own spread is not. RT throttling is off for both and C-states are left alone by both.
"""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from injected_stalls import calibrated_tick, read_table
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, PRIORITY, needs_root
from scipy import stats

from stealtime.platforms.model import Machine
from stealtime.wire.message import ProbeRequest, TrialRequest, WakeupProbe

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

PAIRS = 6
RUN_S = 2
SIGNIFICANCE = 0.01
INTERVAL_NS = 1_000_000
RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")

Maximum = Callable[[], Awaitable[float]]
"""Measures once and gives the longest latency in us."""


@dataclass(frozen=True)
class Maxima:
    """What each tool found, run by run, in us."""

    ours: list[float]
    peers: list[float]

    @property
    def p_value(self) -> float:
        return float(stats.mannwhitneyu(self.ours, self.peers, alternative="two-sided").pvalue)

    def text(self, peer: str) -> str:
        ours, peers = (", ".join(f"{value:.0f}" for value in sorted(runs)) for runs in (self.ours, self.peers))
        return (
            f"median {np.median(self.ours):.0f} us [{ours}], {peer} {np.median(self.peers):.0f} us [{peers}], "
            f"p {self.p_value:.2f}"
        )


@contextmanager
def throttling_off() -> Iterator[None]:
    before = RT_RUNTIME.read_text()
    RT_RUNTIME.write_text("-1")
    try:
        yield
    finally:
        RT_RUNTIME.write_text(before)


def program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed: apt-get install rt-tests (`make test` does it)"
    return path


async def run_peer(*argv: str) -> str:
    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(argv, capture_output=True, text=True, timeout=RUN_S + 20, check=False)

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number_after(words: str, output: str) -> float:
    match = re.search(rf"{words}\s*(\d+)", output)
    assert match is not None, f"no {words!r} in {output!r}"
    return float(match.group(1))


async def our_maximum_us(machine: Machine, probe: ProbeRequest, folder: Path, *, less_floor: bool) -> float:
    request = TrialRequest(
        trial=1, probe=probe, cpus=list(machine.measured_cpus), priority=PRIORITY, duration_ns=RUN_S * 1_000_000_000
    )
    result = await machine.connection.run_trial(request, folder, deadline_s=60)
    assert result.outcome.is_valid, result.outcome.findings
    assert not result.outcome.counters["saturated"], "a stall of over a second: something else holds this CPU"
    durations = read_table(result.samples)["duration"].to_numpy()
    units = int(durations.max()) - (int(durations.min()) if less_floor else 0)
    return units * 1e6 / result.outcome.clock.units_per_s


async def in_turns(ours: Maximum, peer: Maximum) -> Maxima:
    """Alternate, and alternate who begins, so that a drift of the machine meets both alike."""
    maxima = Maxima([], [])
    for pair in range(PAIRS):
        both = [(maxima.ours, ours), (maxima.peers, peer)]
        for kept, measure in both if pair % 2 == 0 else reversed(both):
            kept.append(await measure())
    return maxima


async def compared(ours: Maximum, peer: Maximum) -> Maxima:
    """Give the maxima of both; what looks different is measured once more, anew.

    One comparison in a hundred of equal tools is below ``SIGNIFICANCE``, and a difference that is there shows again:
    both judgements by chance are one in ten thousand.
    """
    first = await in_turns(ours, peer)
    return first if first.p_value > SIGNIFICANCE else await in_turns(ours, peer)


async def test_the_maximum_of_tick_is_that_of_oslat(
    native: Machine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    oslat = program("oslat")
    argv = [oslat, "-c", str(MEASURED_CPU), "-C", str(HOUSEKEEPING_CPU), "-D", str(RUN_S), "-f", str(PRIORITY), "-q"]
    # As close to oslat's empty loop as keeps the samples of a run small: 2 million of a microsecond each.
    probe = await calibrated_tick(native, loop_ns=1_000)

    async def ours() -> float:
        return await our_maximum_us(native, probe, tmp_path, less_floor=True)

    async def peer() -> float:
        return number_after("Maximum:", await run_peer(*argv))

    with throttling_off():
        maxima = await compared(ours, peer)
    tell(f"tick against oslat, maxima of {RUN_S} s: {maxima.text('oslat')}")
    assert maxima.p_value > SIGNIFICANCE, maxima.text("oslat")


async def test_the_maximum_of_wakeup_is_that_of_cyclictest(
    native: Machine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    cyclictest = program("cyclictest")
    # Without --default-system it would forbid deep C-states while it runs, which the probe leaves to the user.
    argv = [
        cyclictest, "-a", str(MEASURED_CPU), "-t", "1", "-p", str(PRIORITY), "-i", str(INTERVAL_NS // 1000),
        "-D", str(RUN_S), "-q", "-m", "--default-system",
    ]  # fmt: skip

    async def ours() -> float:
        probe = WakeupProbe(interval_ns=INTERVAL_NS)
        return await our_maximum_us(native, probe, tmp_path, less_floor=False)

    async def peer() -> float:
        return number_after("Max:", await run_peer(*argv))

    with throttling_off():
        maxima = await compared(ours, peer)
    tell(f"wakeup against cyclictest, maxima of {RUN_S} s: {maxima.text('cyclictest')}")
    assert maxima.p_value > SIGNIFICANCE, maxima.text("cyclictest")
