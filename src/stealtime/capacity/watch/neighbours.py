"""Names who takes the CPUs that virtual CPUs wait for, from short windows of the host's trace.

The host's kernel is recorded for ``WINDOW_S`` of every ``EVERY_S`` and left alone in between, so the cost stays bounded
whatever the load (docs/capacity.md has what it is). It needs root and tracefs; where it cannot be had the reason is
shown, and everything else goes on.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from stealtime.capacity.watch.state import Blame, Neighbours
from stealtime.capacity.watch.waits import SWITCH, WAKING, Trace, VcpuKey, waits_of
from stealtime.lab.platforms.leftovers import clear_leftovers, temporary_folder
from stealtime.lab.tracing.host import HostTracer, host_tracer
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent
from stealtime.wire.message import TraceRequest
from stealtime.wire.results import TraceResult

WINDOW_S = 0.2
EVERY_S = 10.0
_BUFFER_BYTES_PER_CPU = 4 << 20
"""Some 100,000 events, as many as a busy CPU has in a window."""
_BUFFERS_BYTES = 64 << 20
"""Of all CPUs together: what is lost where they are smaller is blamed on nobody."""
_LEAST_BUFFER_BYTES = 128 << 10
_LEAST_PERCENT = 0.1
"""Of a window; what took less is not shown."""
_THREAD_IDS_UNKNOWN = "thread_ids_unknown"

Vcpus = Mapping[VcpuKey, Collection[int]]
"""The threads of each virtual CPU."""


async def follow(
    vcpus: Callable[[], Vcpus],
    members: Callable[[], Mapping[int, str]],
    tell: Callable[[Neighbours], None],
    housekeeping_cpus: tuple[int, ...],
) -> None:
    """Trace a window every so often, and tell who was waited for, until cancelled."""
    # What a `watch` that was killed has left: nobody else may come by for days.
    await asyncio.to_thread(clear_leftovers)
    with temporary_folder() as folder:
        async with host_tracer(folder, housekeeping_cpus) as tracer:
            for window in range(1, 1 << 30):
                tell(await look(tracer, window, folder, vcpus(), members()))
                if tracer.absent is not None:
                    return
                await asyncio.sleep(EVERY_S - WINDOW_S)


def buffer_bytes(cpus: int) -> int:
    """Give the size of a CPU's buffer on a host of so many CPUs: all of them together stay within 64 MiB.

    Hosts of more than 512 CPUs get 128 KiB each, since a smaller buffer would hold no window.
    """
    return min(_BUFFER_BYTES_PER_CPU, max(_BUFFERS_BYTES // cpus, _LEAST_BUFFER_BYTES))


async def look(
    tracer: HostTracer,
    window: int,
    folder: Path,
    vcpus: Vcpus,
    members: Mapping[int, str],
    window_s: float = WINDOW_S,
) -> Neighbours:
    """Trace one window and say who was waited for."""
    if not vcpus:
        return Neighbours(absent=Absent(absent="no virtual CPU is known") if tracer.absent is None else _why(tracer))
    if not await tracer.start(window, TraceRequest(cpus=[], buffer_bytes_per_cpu=buffer_bytes(os.cpu_count() or 1))):
        return Neighbours(absent=_why(tracer))
    try:
        await asyncio.sleep(window_s)
    finally:
        result = await tracer.stop(window, folder)
    if result is None:
        return Neighbours(absent=_why(tracer))
    return await asyncio.to_thread(read_neighbours, result, vcpus, members)


def read_neighbours(result: TraceResult, vcpus: Vcpus, members: Mapping[int, str]) -> Neighbours:
    """Say of a recording who was waited for, the longest first; its file is removed."""
    try:
        table = _read_table(result.trace)
    finally:
        result.trace.unlink(missing_ok=True)
    if any(finding.code == _THREAD_IDS_UNKNOWN for finding in result.outcome.findings):
        return Neighbours(absent=Absent(absent="the trace numbers threads otherwise than /proc here (a container)"))
    columns = {
        name: table.column(name).to_numpy() for name in ("time", "cpu", "kind", "thread", "value", "other", "name")
    }
    names = _names(columns, result.outcome.names)
    trace = Trace(
        time=columns["time"].astype(np.int64),
        cpu=columns["cpu"],
        kind=columns["kind"],
        thread=columns["thread"],
        value=columns["value"],
        other=columns["other"],
        hz=result.outcome.tsc_hz,
    )
    covered = result.outcome.start.tsc, result.outcome.end.tsc
    window = covered[1] - covered[0]
    blames = []
    waited_percent = {}
    for (guest, number), waited in waits_of(trace, vcpus, covered).items():
        waited_percent[guest, number] = 100 * waited.total / window
        took: dict[tuple[str, int | None], float] = {}
        for other, length in waited.for_thread.items():
            # Guests by their names, whichever of their threads it was; others each for itself.
            member = members.get(other)
            who = (names.get(other, "thread"), other) if member is None else (f"guest {member}", None)
            took[who] = took.get(who, 0.0) + 100 * length / window
        blames += [
            Blame(guest, number, name, percent, tid)
            for (name, tid), percent in took.items()
            if percent >= _LEAST_PERCENT
        ]
    ordered = tuple(sorted(blames, key=lambda one: -one.percent))
    return Neighbours(ordered, window / result.outcome.tsc_hz, waited_percent)


def _read_table(path: Path) -> pa.Table:
    try:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"the trace {path} cannot be read: {error}") from error


def _names(columns: Mapping[str, np.ndarray], known: list[str]) -> dict[int, str]:
    """Give the names of threads, as switches and wake-ups tell them of the thread that comes."""
    named = np.isin(columns["kind"], (SWITCH, WAKING))
    tids, first = np.unique(columns["other"][named], return_index=True)
    numbers = columns["name"][named][first]
    return {int(tid): known[number] for tid, number in zip(tids, numbers, strict=True) if number < len(known)}


def _why(tracer: HostTracer) -> Absent:
    if tracer.absent is None:
        return Absent(absent="the host is not traced")
    hint = "" if tracer.absent.hint is None else f" (hint: {tracer.absent.hint})"
    return Absent(absent=f"{tracer.absent.text}{hint}")
