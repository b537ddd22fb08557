"""Who besides us used some CPUs between two looks at this host.

A look costs some ms: the table of processes and our own threads. Of the time in which the CPUs were not idle (in clock
ticks of 10 ms) what our threads ran there is taken off (in ns); what is left was others'. Ours is whatever descends
from this process or carries its mark. The time alone does not say whose it was: named are the strangers that used CPU
time meanwhile and whose threads ran last on these CPUs. A trace would know better, and costs more than it tells.
"""

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.lab.strangers.cpu_times import CpuTimes, read_cpu_times
from stealtime.lab.strangers.processes import (
    PROC,
    TICK_NS,
    Gain,
    Process,
    descendants,
    environment_value,
    gains,
    last_cpus,
    own_id,
    read_processes,
    sees_everybody,
    thread_times,
)
from stealtime.vocabulary.readings import STRICT, Absent, Reading, Value

MOST_NAMED = 5
_INIT = 1
"""Who adopts orphans, and so is told what they used."""


@dataclass(frozen=True)
class StrangerLook:
    """This host at one moment."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    cpus: tuple[int, ...]
    """Those that are watched."""
    times: CpuTimes | None
    processes: Mapping[int, Process]
    own: frozenset[int]
    """Ids of our processes."""
    own_threads: Mapping[tuple[int, int], tuple[int, int | None]]
    sees_everybody: bool
    """Whether there is no PID namespace around this one whose processes are not shown."""


@dataclass(frozen=True)
class Stranger:
    """A program that was neither ours nor asked for."""

    __pydantic_config__ = STRICT

    name: str
    pid: int
    cpu_ns: int
    """On any CPU, in steps of 10 ms; children that ended meanwhile are in it."""
    is_kernel: bool = False
    """A thread of the kernel."""
    is_of_a_run: bool = False
    """Whether another run of this tool started it."""


@dataclass(frozen=True)
class Seen:
    """What there was between two looks."""

    cpus: tuple[int, ...]
    elapsed_ns: int
    strangers_ns: Reading
    """That others' programs had the CPUs, all of these together."""
    steal_ns: Reading
    """The same of the host's own host."""
    who: tuple[Stranger, ...]
    """Those that used most first."""


def look(cpus: tuple[int, ...], proc: Path = PROC, clock_ns: Callable[[], int] = time.monotonic_ns) -> StrangerLook:
    """Look at the host now."""
    processes = read_processes(proc)
    root = own_id(proc)
    own = frozenset() if root is None else frozenset(descendants(processes, root))
    # The CPUs' times stand between the other readings: nearest to the moment.
    times, at_ns = read_cpu_times(cpus, proc), clock_ns()
    return StrangerLook(at_ns, cpus, times, processes, own, thread_times(own, proc), sees_everybody(proc))


def between(before: StrangerLook, after: StrangerLook, proc: Path = PROC) -> Seen:
    gained = gains(before.processes, after.processes)
    ours = before.own | after.own
    ours |= {gain.process.pid for gain in gained if gain.process.pid not in ours and _is_marked(gain.process, proc)}
    others = [gain for gain in gained if gain.process.pid not in ours]
    return Seen(
        cpus=before.cpus,
        elapsed_ns=after.at_ns - before.at_ns,
        strangers_ns=_strangers_ns(before, after, gained, ours),
        steal_ns=_steal_ns(before.times, after.times),
        who=tuple(_named(others, after.cpus, proc)),
    )


def _strangers_ns(before: StrangerLook, after: StrangerLook, gained: list[Gain], ours: Set[int]) -> Reading:
    if not before.own:
        return Absent(absent="/proc shows the processes of another PID namespace, so ours are not known")
    if before.times is None or after.times is None:
        return Absent(absent="/proc/stat does not hold each of these CPUs")
    whole_ns = (after.at_ns - before.at_ns) * len(after.cpus)
    stolen_ns = (after.times.steal_ns or 0) - (before.times.steal_ns or 0)
    busy_ns = whole_ns - (after.times.idle_ns - before.times.idle_ns) - max(0, stolen_ns)
    others_ns = max(0, busy_ns - _own_ns(before, after, gained, ours))
    if before.sees_everybody:
        # No more than others are known to have used: what one of ours ran that was killed is told to nobody of us.
        used_ns = sum(gain.of_itself for gain in gained if gain.process.pid == _INIT) * TICK_NS
        used_ns += sum(gain.ticks for gain in gained if gain.process.pid not in {_INIT, *ours}) * TICK_NS
        others_ns = min(others_ns, used_ns)
    return Value(value=others_ns)


def _own_ns(before: StrangerLook, after: StrangerLook, gained: list[Gain], ours: Set[int]) -> int:
    """Give what our threads ran on the watched CPUs; one that began and ended within is taken to have run there."""
    ran_there_ns, living_ns = 0, dict.fromkeys(ours, 0)
    for (pid, thread), (run_ns, cpu) in after.own_threads.items():
        gained_ns = run_ns - before.own_threads.get((pid, thread), (0, None))[0]
        living_ns[pid] = living_ns.get(pid, 0) + gained_ns
        if cpu in after.cpus:
            ran_there_ns += gained_ns
    ended_ns = sum(
        gain.ticks * TICK_NS - living_ns.get(gain.process.pid, 0) for gain in gained if gain.process.pid in ours
    )
    return ran_there_ns + max(0, ended_ns)


def _steal_ns(before: CpuTimes | None, after: CpuTimes | None) -> Reading:
    if before is None or after is None or before.steal_ns is None or after.steal_ns is None:
        return Absent(absent="/proc/stat has no steal of each of these CPUs")
    gained_ns = after.steal_ns - before.steal_ns
    if gained_ns < 0:
        return Absent(absent="the steal of /proc/stat went backwards")
    return Value(value=gained_ns)


def _is_marked(process: Process, proc: Path) -> bool:
    return not process.is_kernel and environment_value(process.pid, RUN_MARK, proc) == run_mark()


def _named(others: list[Gain], cpus: tuple[int, ...], proc: Path) -> list[Stranger]:
    found = []
    for gain in others:
        ran_on = last_cpus(gain.process.pid, proc)
        if ran_on and ran_on.isdisjoint(cpus):
            continue
        mark = None if gain.process.is_kernel else environment_value(gain.process.pid, RUN_MARK, proc)
        found.append(
            Stranger(
                name=gain.process.name,
                pid=gain.process.pid,
                cpu_ns=gain.ticks * TICK_NS,
                is_kernel=gain.process.is_kernel,
                is_of_a_run=mark is not None,
            )
        )
        if len(found) == MOST_NAMED:
            break
    return found
