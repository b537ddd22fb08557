"""A set of tasks with the periods of engine and chassis controllers, run by ``rtload`` and watched meanwhile.

The truth is what the threads stamped themselves: where each job's own instructions began and ended.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stealtime import _core
from stealtime.extraction.host_view import HostView, watched_from_host
from stealtime.lab.platforms.model import Machine
from stealtime.store.columns import columns_of_stream
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.store.traces import events_of
from stealtime.wire.message import RunTrial, TraceRequest, TracingOutcome
from stealtime.wire.rtload import RealTimeTask, RtloadProbe

if TYPE_CHECKING:
    from stealtime._core import EventsDict, ExtractedDict

PERIODS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 1000)
"""Kramer, Ziegenbein and Hamann, "Real world automotive benchmarks for free", WATERS 2015."""
PRIORITY = 80
_LOOP_NS = 68_000
_MATCH = pa.schema([("task", pa.uint16()), ("start", pa.uint64()), ("finish", pa.uint64())])


@dataclass(frozen=True)
class Compared:
    """A task as it was found, and its jobs as they were stamped; rows of jobs that both know."""

    period_ns: int
    found: "ExtractedDict"
    stamped_ns: NDArray[np.float64]
    """From its own first instruction to its last."""
    spanned_ns: NDArray[np.float64]
    """The same, by the trace."""
    disturbance_ns: NDArray[np.float64]
    """Interrupts and what the host took, by the trace."""
    own_ns: NDArray[np.float64]
    preempted: NDArray[np.bool_]
    counts: NDArray[np.bool_]
    matched_share: float
    """Of the stamped jobs between the first and the last that were found."""

    @property
    def outside_ns(self) -> NDArray[np.float64]:
        """Give what lies between the calls in which a thread waits and its stamps: it keeps a row and reads clocks."""
        return np.asarray(self.spanned_ns - self.stamped_ns, np.float64)


@dataclass(frozen=True)
class Ran:
    """All tasks of a set."""

    tasks: list[Compared]
    host: HostView
    events: "EventsDict"
    tracing: TracingOutcome


async def run_set(
    machine: Machine, agent_process: int, folder: Path, periods_ms: Sequence[int], *, duration_s: float, is_guest: bool
) -> Ran:
    """Run tasks of these periods, each job 5 % of its period but 10 ms at most, and watch it."""
    connection, cpu = machine.connection, machine.measured_cpus[-1]
    busy = await connection.calibrate(_LOOP_NS, cpu, PRIORITY)
    tasks = []
    for period_ms in periods_ms:
        # Under TCG each job of a millisecond costs the emulator a good part of one besides.
        cost_ns = min(max(50_000 * period_ms, 50_000 if is_guest else 100_000), 10_000_000)
        iterations = max(1, busy.iterations * cost_ns // _LOOP_NS)
        period_ns = period_ms * 1_000_000
        tasks.append(
            RealTimeTask(
                name=f"t{period_ms}",
                period_ns=period_ns,
                deadline_ns=period_ns,
                cost_ns=cost_ns,
                budget_ns=None,
                iterations=iterations,
            )
        )
    request = RunTrial(
        trial=2,
        probe=RtloadProbe(policy="fifo", tasks=tasks, polluters=0, polluter_bytes=4096, drawn=None),
        cpus=[cpu],
        priority=PRIORITY,
        duration_ns=int(duration_s * 1e9),
        lift_rt_throttling=True,
        # Of the trial itself, which nobody reads meanwhile: a reader would be of the process that is recorded.
        tracing=TraceRequest(
            buffer_bytes_per_cpu=64 << 20, extra_groups=["timer_starts", "calls"], processes=[agent_process]
        ),
    )
    async with watched_from_host(machine, is_guest, folder) as host:
        await host.begin()
        result = await connection.run_trial(request, folder, deadline_s=duration_s + 120, needs=("jobs", "trace"))
        await host.end()
    outcome = result.outcome.tracing
    assert outcome is not None
    assert result.outcome.rtload is not None
    assert result.trace is not None
    threads = [one.thread_id for one in result.outcome.rtload.tasks]
    events = events_of(await asyncio.to_thread(columns_of_stream, result.trace, TRACE_SCHEMA), outcome)
    clocks = ((outcome.start.tsc, outcome.start.monotonic_ns), (outcome.end.tsc, outcome.end.monotonic_ns))
    found = {one["thread"]: one for one in _core.extract_tasks(events, threads, clocks, host.taken)}
    stamps = await asyncio.to_thread(columns_of_stream, result.tables["jobs"], _MATCH)
    cycle_ns = 1e9 / outcome.tsc_hz
    compared = [
        _compare(task.period_ns, found[thread], stamps, place, cycle_ns)
        for place, (task, thread) in enumerate(zip(tasks, threads, strict=True))
    ]
    return Ran(compared, host, events, outcome)


def _compare(period_ns: int, found: "ExtractedDict", stamps: dict[str, Any], place: int, cycle_ns: float) -> Compared:
    ours = stamps["task"] == place
    start, finish = stamps["start"][ours].astype(np.int64), stamps["finish"][ours].astype(np.int64)
    jobs = {name: column.astype(np.int64) for name, column in found["jobs"].items()}
    # The job that was woken last before the stamp, and ended after it.
    row = np.searchsorted(jobs["woken"], start, side="right") - 1
    inside = (row >= 0) & (start <= max(jobs["own_ended"], default=0))
    is_matched = np.zeros(len(start), bool)
    is_matched[inside] = jobs["own_ended"][row[inside]] >= finish[inside]
    # Of two jobs of one activation the second begins without a wait.
    _, first = np.unique(row[is_matched], return_index=True)
    chosen = np.flatnonzero(is_matched)[first]
    row = row[chosen]
    disturbance = jobs["interrupts"] + jobs["taken"]
    return Compared(
        period_ns=period_ns,
        found=found,
        stamped_ns=(finish - start)[chosen] * cycle_ns,
        spanned_ns=(jobs["own_ended"] - jobs["own_started"])[row] * cycle_ns,
        disturbance_ns=disturbance[row] * cycle_ns,
        own_ns=jobs["own"][row] * cycle_ns,
        preempted=jobs["preemptions"][row] > 0,
        counts=(jobs["counts"][row] == 1) & (jobs["may_be_taken"][row] == 0),
        matched_share=len(chosen) / max(1, int(inside.sum())),
    )
