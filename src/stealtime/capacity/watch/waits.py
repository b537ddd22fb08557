"""Who ran while a virtual CPU waited, from the host's switches and wake-ups; pure.

A wait begins where a thread loses its CPU while it could go on, or is woken, and ends where it runs again. Whoever ran
on that CPU meanwhile is who it waited for. Where a thread was taken off one CPU and goes on on another, it waited for
who ran on the first; one that was woken waits where it runs in the end, because the kernel chooses that only then.

A trace has gaps: a switch whose outgoing thread is not the one that last came in shows that another is missing (Linux
6.18 leaves some out, docs/decisions/2026-11-22-missing-switches.md). What the kernel's accounts of runtime say of the
time between is taken instead; for the rest nobody is blamed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stealtime._core import EVENT_KINDS

Numbers = npt.NDArray[Any]
SWITCH, WAKING, LOST, RUNTIME = (EVENT_KINDS.index(name) for name in ("switch", "waking", "lost", "runtime"))
IDLE = 0
"""The thread id of every CPU's idle task."""
_UNKNOWN = -1
VcpuKey = tuple[str, int]
"""A guest's name, and the number of its virtual CPU."""


@dataclass(frozen=True)
class Trace:
    """The columns of a table ``trace`` that are needed, sorted by time."""

    time: Numbers
    cpu: Numbers
    kind: Numbers
    thread: Numbers
    value: Numbers
    other: Numbers
    hz: float
    """Of ``time``."""


@dataclass(frozen=True)
class Waited:
    """What one virtual CPU waited for, in the clock's units."""

    total: int
    for_thread: Mapping[int, int]
    """By the thread that ran meanwhile; without the idle task, and without what is unknown."""
    idle: int
    """Its CPU was idle: it was being woken, or a quota held it back."""
    unknown: int


@dataclass(frozen=True)
class _Occupancy:
    """Who had one CPU, stretch after stretch."""

    start: Numbers
    end: Numbers
    thread: Numbers


def waits_of(trace: Trace, vcpus: Mapping[VcpuKey, Collection[int]], covered: tuple[int, int]) -> dict[VcpuKey, Waited]:
    """Give what each virtual CPU waited for.

    Args:
        trace: Of the host.
        vcpus: The threads of each: one, or for User-Mode Linux all of its processes, of which one runs at a time.
        covered: Beginning and end of the recording.
    """
    occupancies = {int(cpu): _occupancy(trace, int(cpu), covered) for cpu in np.unique(trace.cpu)}
    return {key: _waited(trace, threads, covered, occupancies) for key, threads in vcpus.items()}


def _occupancy(trace: Trace, cpu: int, covered: tuple[int, int]) -> _Occupancy:
    here = trace.cpu == cpu
    rows = here & (trace.kind == SWITCH)
    time, leaving, coming = trace.time[rows], trace.thread[rows], trace.other[rows]
    if len(time) == 0:
        whole = np.array([covered[0]]), np.array([covered[1]])
        return _Occupancy(*whole, np.array([_UNKNOWN]))
    start = np.concatenate([[covered[0]], time])
    end = np.concatenate([time, [covered[1]]])
    # Before the first switch ran who left at it; after each switch who came, if it is he who leaves at the next.
    thread = np.concatenate([[leaving[0]], coming])
    agrees = np.concatenate([[True], coming[:-1] == leaving[1:], [True]])
    thread = np.where(agrees, thread, _UNKNOWN)
    lost = trace.time[here & (trace.kind == LOST)]
    if len(lost):
        # The stretch in which events were lost says nothing.
        thread[np.clip(np.searchsorted(start, lost, side="right") - 1, 0, len(thread) - 1)] = _UNKNOWN
    return _with_accounts(_Occupancy(start, end, thread), trace, here)


def _with_accounts(occupancy: _Occupancy, trace: Trace, here: Numbers) -> _Occupancy:
    """Fill stretches in which a switch is missing with what the kernel's accounts say of them."""
    if not (occupancy.thread == _UNKNOWN).any():
        return occupancy
    rows = np.flatnonzero(here & (trace.kind == RUNTIME))
    ended, whose = trace.time[rows], trace.other[rows]
    began = ended - (trace.value[rows] * (trace.hz / 1e9)).astype(np.int64)
    filled: list[tuple[int, int, int]] = []
    for start, end, thread in zip(occupancy.start, occupancy.end, occupancy.thread, strict=True):
        if thread != _UNKNOWN:
            filled.append((start, end, thread))
            continue
        at = int(start)
        for row in range(*np.searchsorted(ended, (start, end), side="right")):
            first = max(int(began[row]), at)
            filled += [(at, first, _UNKNOWN), (first, int(ended[row]), int(whose[row]))]
            at = int(ended[row])
        filled.append((at, int(end), _UNKNOWN))
    columns = np.array(filled, dtype=np.int64).T
    return _Occupancy(columns[0], columns[1], columns[2])


def _waited(
    trace: Trace, threads: Collection[int], covered: tuple[int, int], occupancies: Mapping[int, _Occupancy]
) -> Waited:
    total = idle = unknown = 0
    for_thread: dict[int, int] = {}
    waits = sorted(wait for thread in threads for wait in _waits(trace, thread, covered))
    done: dict[int, int] = {}
    for begin, end, cpu in waits:
        # Where several threads of one virtual CPU wait at once that is one wait.
        begin = max(begin, done.get(cpu, begin))
        done[cpu] = max(end, done.get(cpu, end))
        for other, length in _who_ran(occupancies[cpu], begin, end) if end > begin else ():
            if other in threads:
                continue  # another thread of this virtual CPU: it ran
            total += length
            if other == IDLE:
                idle += length
            elif other == _UNKNOWN:
                unknown += length
            else:
                for_thread[other] = for_thread.get(other, 0) + length
    return Waited(total, for_thread, idle, unknown)


def _waits(trace: Trace, thread: int, covered: tuple[int, int]) -> list[tuple[int, int, int]]:
    switches = trace.kind == SWITCH
    mine = np.flatnonzero(
        (switches & ((trace.thread == thread) | (trace.other == thread)))
        | (((trace.kind == WAKING) | (trace.kind == RUNTIME)) & (trace.other == thread))
    )
    waits = []
    begin: int | None = None
    put_off_cpu: int | None = None
    runs = False
    accounted: tuple[int, int] | None = None
    woken_early = False
    left_at: int | None = None
    for row in mine:
        time, cpu = int(trace.time[row]), int(trace.cpu[row])
        if trace.kind[row] == RUNTIME:
            accounted = (time, cpu)
        elif trace.kind[row] == WAKING:
            if runs:
                woken_early = True
            elif begin is None:
                begin, put_off_cpu = time, None
        elif trace.other[row] == thread:
            if begin is None and left_at is not None:
                # Nobody woke it since: who did had begun to just before it left.
                begin, put_off_cpu = left_at, None
            if begin is not None:
                waits.append((begin, time, cpu if put_off_cpu is None else put_off_cpu))
            elif runs and accounted is not None:
                # It comes in and had not left: that switch is missing. It was not woken, so it was put off, where its
                # accounts end.
                waits.append((accounted[0], time, accounted[1]))
            begin, runs, accounted, woken_early, left_at = None, True, None, False, None
        else:
            # State 0 is TASK_RUNNING: it was put off.
            begin, put_off_cpu = (time, cpu) if trace.value[row] == 0 else (None, None)
            runs, left_at = False, time if woken_early and begin is None else None
    if begin is not None and put_off_cpu is not None:
        waits.append((begin, covered[1], put_off_cpu))
    return waits


def _who_ran(occupancy: _Occupancy, begin: int, end: int) -> list[tuple[int, int]]:
    first = int(np.searchsorted(occupancy.end, begin, side="right"))
    last = int(np.searchsorted(occupancy.start, end, side="left"))
    found = []
    for index in range(first, last):
        length = min(end, int(occupancy.end[index])) - max(begin, int(occupancy.start[index]))
        if length > 0:
            found.append((int(occupancy.thread[index]), length))
    return found
