"""The start latency of a job is what cyclictest measures: both in turn, on one CPU, of one priority and interval.

Averages are compared, of rounds of half a second; a few stalls decide an average, and they come when they like. So not
one number is held against another, but the rounds side by side: their differences must not lie around more than the
rounds of one tool differ among themselves. If both tools measured the same, the rule (``is_surely_off``, signed ranks)
would complain once in a thousand times.

cyclictest leaves out the wake-ups that a late one swallows. So only jobs count here whose release found the one before
done; RT throttling is off for both, and C-states are left alone by both.
"""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from injected_stalls import is_surely_off, read_table
from machines import MEASURED_CPU, PRIORITY, needs_root
from numpy.typing import NDArray
from test_against_peers import peers_output, program, throttling_off

from stealtime.lab.platforms.model import Machine
from stealtime.wire.message import RunTrial
from stealtime.wire.rtload import RealTimeTask, RtloadProbe

pytestmark = [pytest.mark.guest, pytest.mark.truth, pytest.mark.asyncio(loop_scope="session"), needs_root]

ROUNDS = int(os.environ.get("STEALTIME_PEER_ROUNDS", "12"))
INTERVAL_NS, WAKEUPS = 1_000_000, 500
LOOP_NS, COST_NS = 68_000, 10_000
LEAST_SPREAD_NS = 1_000.0
"""What the two readings of a clock may differ by: cyclictest's is a call into the vDSO, ours an instruction."""


def spread_ns(ours: NDArray[np.float64], peer: NDArray[np.float64]) -> float:
    """Tell by how much the rounds of one tool differ among themselves: the distance of quartiles, of the wider one."""
    return max(LEAST_SPREAD_NS, *(float(np.subtract(*np.percentile(side, [75, 25]))) for side in (ours, peer)))


async def our_average_ns(machine: Machine, iterations: int, folder: Path) -> float:
    task = RealTimeTask(
        name="t1", period_ns=INTERVAL_NS, deadline_ns=INTERVAL_NS, cost_ns=COST_NS, budget_ns=None,
        iterations=iterations,
    )  # fmt: skip
    request = RunTrial(
        trial=1,
        probe=RtloadProbe(policy="fifo", tasks=[task], polluters=0, polluter_bytes=4096, drawn=None),
        cpus=[MEASURED_CPU],
        priority=PRIORITY,
        duration_ns=WAKEUPS * INTERVAL_NS,
    )
    result = await machine.connection.run_trial(request, folder, deadline_s=30, needs=("jobs",))
    told = result.outcome.rtload
    assert told is not None
    table = read_table(result.tables["jobs"])
    release, start, finish = (table[name].to_numpy().astype(np.int64) for name in ("release", "start", "finish"))
    slept = release[1:] > finish[:-1]
    assert slept.mean() > 0.5, "most jobs waited for the one before: something else holds this CPU"
    return float((start - release)[1:][slept].mean() / told.conversion.tsc_per_ns)


async def peers_average_ns(folder: Path) -> float:
    path = folder / "cyclictest.json"
    # Without --default-system it would forbid deep C-states while it runs, which the probe leaves to the user.
    await peers_output(
        program("cyclictest"), "-a", str(MEASURED_CPU), "-t", "1", "-p", str(PRIORITY), "-i", str(INTERVAL_NS // 1000),
        "-l", str(WAKEUPS), "-q", "-m", "--default-system", f"--json={path}",
    )  # fmt: skip
    (thread,) = json.loads(await asyncio.to_thread(path.read_text))["thread"].values()
    return 1000.0 * float(thread["avg"])


async def test_the_average_start_latency_is_that_of_cyclictest(
    native: Machine, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    calibrated = await native.connection.calibrate(LOOP_NS, MEASURED_CPU, PRIORITY)
    iterations = calibrated.iterations * COST_NS // LOOP_NS
    rounds = []
    with throttling_off():
        for number in range(ROUNDS):
            turns = [("ours", our_average_ns(native, iterations, tmp_path)), ("peer", peers_average_ns(tmp_path))]
            rounds.append({name: await turn for name, turn in (turns if number % 2 else turns[::-1])})
    ours, peer = (np.array([one[name] for one in rounds]) for name in ("ours", "peer"))
    spread = spread_ns(ours, peer)
    tell(
        f"average start latency of rtload {np.median(ours) / 1000:.1f} us, of cyclictest {np.median(peer) / 1000:.1f} "
        f"us (medians of {ROUNDS} rounds in turn), difference {np.median(ours - peer) / 1000:+.1f} us, spread "
        f"{spread / 1000:.1f} us"
    )
    assert not is_surely_off(ours - peer, spread), (ours, peer)
    # What would not be the same is found: each of our jobs later than all rounds differ.
    later = ours + 2 * spread + np.ptp(ours - peer)
    assert is_surely_off(later - peer, spread)
