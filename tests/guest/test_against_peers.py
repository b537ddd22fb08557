"""The probes against the tools that everybody uses: both at once, on one disturbance of a known length.

What is compared is the maximum, the figure for which these tools are run. Maxima of separate runs say little: they
have heavy tails, and a probe whose maxima were half of the peer's would have passed a test of ranks over six runs each
in 92 % of cases. So both tools run at the same time while a thread of higher priority stalls both at the same moments,
for longer than anything else here does. ``wakeup`` and cyclictest, which sleep, share a CPU; ``tick`` and oslat, which
do not, have one each, and both are stalled. Of each round the ratio of the two maxima is taken; their median is
judged, as a single round may be disturbed on one side.

The rule (``judge``) is itself tested, on rounds that were measured: with the maxima of one side halved or doubled it
must complain. RT throttling is off for both and C-states are left alone by both.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from injected_stalls import calibrated_tick, read_table
from known_stalls import known_stalls
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, PRIORITY, needs_root

from stealtime.lab.platforms.model import Machine
from stealtime.wire.message import ProbeRequest, RunTrial, WakeupProbe

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

ROUNDS = int(os.environ.get("STEALTIME_PEER_ROUNDS", "3"))
RUN_S = 3
RATIO_MAX = 2**0.5
"""Of the medians, either way: half-way from equal maxima to a factor of two. The tools differ by their loops (1 us),
their intervals (1 ms of 100) and the moments at which the machine itself disturbs one of them."""
INTERVAL_NS = 1_000_000
STALLS_NS = (100_000_000, 160_000_000, 130_000_000)
"""Longer than what a kernel grants to ordinary threads that starve (50 ms), not of one length."""
RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")


@dataclass(frozen=True)
class Round:
    """What both tools found at the same time, in us."""

    ours: float
    peer: float
    injected: float
    """The longest stall, as it was stamped."""


def judge(rounds: Sequence[Round]) -> str | None:
    """Complain of maxima that are not the same, or not those that were injected."""
    for name, ratios in (
        ("ours to the peer's", [one.ours / one.peer for one in rounds]),
        ("ours to what was injected", [one.ours / one.injected for one in rounds]),
    ):
        ratio = float(np.median(ratios))
        if not 1 / RATIO_MAX <= ratio <= RATIO_MAX:
            return f"{name}: {ratio:.2f}"
    return None


def text(rounds: Sequence[Round], peer: str) -> str:
    ratios = sorted(one.ours / one.peer for one in rounds)
    single = sum(not 1 / RATIO_MAX <= ratio <= RATIO_MAX for ratio in ratios)
    figures = "; ".join(
        f"{one.ours / 1000:.1f} and {one.peer / 1000:.1f} of {one.injected / 1000:.1f} ms" for one in rounds[:5]
    )
    return (
        f"ratio to {peer} {ratios[0]:.3f} / {np.median(ratios):.3f} / {ratios[-1]:.3f} (least, median, largest of "
        f"{len(rounds)}), {single} single rounds off by over {RATIO_MAX:.2f}; {figures}"
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


def number_after(words: str, output: str) -> float:
    match = re.search(rf"{words}\s*(\d+)", output)
    assert match is not None, f"no {words!r} in {output!r}"
    return float(match.group(1))


async def our_maximum_us(machine: Machine, probe: ProbeRequest, folder: Path) -> float:
    request = RunTrial(
        trial=1, probe=probe, cpus=list(machine.measured_cpus), priority=PRIORITY, duration_ns=RUN_S * 1_000_000_000
    )
    result = await machine.connection.run_trial(request, folder, deadline_s=60)
    assert all(one.level == "limits" for one in result.outcome.findings), result.outcome.findings
    assert not result.outcome.counters["saturated"], "a stall of over a second: something else holds this CPU"
    durations = read_table(result.samples)["duration"].to_numpy()
    return int(durations.max()) * 1e6 / result.outcome.clock.units_per_s


async def peers_output(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), RUN_S + 30)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output
    return output.decode()


async def at_once(
    ours: Callable[[], Awaitable[float]], peer: Callable[[], Awaitable[float]], cpus: Sequence[int]
) -> list[Round]:
    """Measure with both tools at the same time, again and again, while the CPUs of both are stalled."""
    rounds = []
    with throttling_off():
        for number in range(ROUNDS):
            with known_stalls(cpus, STALLS_NS[number % len(STALLS_NS)]) as stalls:
                found = await asyncio.gather(ours(), peer())
            rounds.append(Round(*found, injected=max(stalls.longest_ns) / 1000))
    return rounds


def judge_and_damage(rounds: Sequence[Round]) -> None:
    """See that the rounds are fine, and that a factor of two would be found in them."""
    assert judge(rounds) is None, (judge(rounds), rounds)
    for factor in (0.5, 2.0):
        assert judge([replace(one, ours=factor * one.ours) for one in rounds]) is not None, factor
        assert judge([replace(one, peer=factor * one.peer) for one in rounds]) is not None, factor


@pytest.mark.truth
async def test_the_maximum_of_tick_is_that_of_oslat(
    native: Machine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    # Each has a CPU of its own, and both are stalled at the same moments. oslat's main thread only sleeps.
    argv = [
        program("oslat"), "-c", str(HOUSEKEEPING_CPU), "-C", str(MEASURED_CPU), "-D", str(RUN_S), "-f", str(PRIORITY),
        "-q",
    ]  # fmt: skip
    # As close to oslat's empty loop as keeps the samples of a run small: 3 million of a microsecond each.
    probe = await calibrated_tick(native, loop_ns=1_000)

    async def peer() -> float:
        return number_after("Maximum:", await peers_output(*argv))

    rounds = await at_once(lambda: our_maximum_us(native, probe, tmp_path), peer, (HOUSEKEEPING_CPU, MEASURED_CPU))
    tell(f"tick and oslat at once: {text(rounds, 'oslat')}")
    judge_and_damage(rounds)


@pytest.mark.truth
async def test_the_maximum_of_wakeup_is_that_of_cyclictest(
    native: Machine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    # Without --default-system it would forbid deep C-states while it runs, which the probe leaves to the user.
    argv = [
        program("cyclictest"), "-a", str(MEASURED_CPU), "-t", "1", "-p", str(PRIORITY), "-i", str(INTERVAL_NS // 1000),
        "-D", str(RUN_S), "-q", "-m", "--default-system",
    ]  # fmt: skip

    async def peer() -> float:
        return number_after("Max:", await peers_output(*argv))

    probe = WakeupProbe(interval_ns=INTERVAL_NS)
    rounds = await at_once(lambda: our_maximum_us(native, probe, tmp_path), peer, (MEASURED_CPU,))
    tell(f"wakeup and cyclictest at once: {text(rounds, 'cyclictest')}")
    judge_and_damage(rounds)
