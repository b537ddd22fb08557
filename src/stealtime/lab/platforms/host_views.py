"""Run time, guest time, run delay and steal time as the host's kernel counts them: a second view besides the trace.

``/proc/PID/task/TID/schedstat`` holds how long a thread was on a CPU, and how long runnable but on none
(Documentation/scheduler/sched-stats.rst), ``stat`` beside it how long it executed a guest's instructions (field 43 of
proc_pid_stat(5), in clock ticks), ``/proc/stat`` how long the host's own host had a CPU (``steal``, in clock
ticks, see proc_stat(5)). All only count up, so each is read before and after; one that went backwards says nothing.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.vocabulary.readings import Absent, Reading, Value

_PROC = Path("/proc")
_STEAL_COLUMN = 8
"""Of a line ``cpuN`` of ``/proc/stat``, the name being column 0; since Linux 2.6.11."""
_RUN_COLUMN, _RUN_DELAY_COLUMN = 0, 1
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class HostLook:
    """Counters at one moment, each in ns since the thread or the machine started."""

    run_ns: Mapping[int, int | str]
    """On a CPU, by thread id; a text says why there is no number."""
    run_delay_ns: Mapping[int, int | str]
    """The same, runnable but on none."""
    steal_ns: Mapping[int, int | str]
    """By CPU, in steps of one clock tick (10 ms)."""
    guest_ns: Mapping[int, int | str]
    """Of ``run_ns``, executing a guest's instructions under KVM, in the same steps; by thread id."""


@dataclass(frozen=True)
class HostDelays:
    """What the counters gained between two looks, summed over the threads or CPUs."""

    run_ns: Reading
    run_delay_ns: Reading
    steal_ns: Reading
    guest_ns: Reading


def look(threads: Iterable[int], cpus: Iterable[int], proc: Path = _PROC) -> HostLook:
    """Read the counters of host threads and host CPUs."""
    counted = {thread: _schedstat(thread, proc) for thread in threads}
    run_ns, run_delay_ns = (
        {thread: found if isinstance(found, str) else found[column] for thread, found in counted.items()}
        for column in (_RUN_COLUMN, _RUN_DELAY_COLUMN)
    )
    guest_ns = {thread: _guest_ns(thread, proc) for thread in counted}
    return HostLook(run_ns, run_delay_ns, _steal_ns(cpus, proc), guest_ns)


def between(before: HostLook, after: HostLook) -> HostDelays:
    """Give what was gained from one look to a later one at the same threads and CPUs."""
    return HostDelays(
        run_ns=_gained(before.run_ns, after.run_ns, "thread"),
        run_delay_ns=_gained(before.run_delay_ns, after.run_delay_ns, "thread"),
        steal_ns=_gained(before.steal_ns, after.steal_ns, "CPU"),
        guest_ns=_gained(before.guest_ns, after.guest_ns, "thread"),
    )


def _gained(before: Mapping[int, int | str], after: Mapping[int, int | str], what: str) -> Reading:
    if not before:
        return Absent(absent=f"no {what} was looked at")
    total = 0
    for key, first in before.items():
        second = after.get(key, "it was not read again")
        for count in (first, second):
            if isinstance(count, str):
                return Absent(absent=f"{what} {key}: {count}")
        assert isinstance(first, int) and isinstance(second, int)  # noqa: S101, PT018 - for the type checker
        if second < first:
            return Absent(absent=f"{what} {key}: the count went backwards, from {first} to {second} ns")
        total += second - first
    return Value(value=total)


def _schedstat(thread: int, proc: Path) -> tuple[int, int] | str:
    """Give the time on a CPU and the time runnable without one."""
    path = proc / str(thread) / "task" / str(thread) / "schedstat"
    try:
        columns = path.read_text().split()
        return int(columns[_RUN_COLUMN]), int(columns[_RUN_DELAY_COLUMN])
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (IndexError, ValueError):
        return f"{path} reports no run delay (the kernel lacks CONFIG_SCHED_INFO)"


def parse_guest_ticks(stat: bytes) -> int | None:
    """Read how long a thread ran a guest's instructions under KVM, from its ``stat``, in clock ticks.

    Returns:
        Field 43 of proc_pid_stat(5) (since Linux 2.6.24); None where there is none.
    """
    # The name in field 2 may hold spaces and parentheses; the last ')' ends it.
    fields = stat[stat.rfind(b")") + 1 :].split()
    return int(fields[40]) if len(fields) > 40 else None


def _guest_ns(thread: int, proc: Path) -> int | str:
    path = proc / str(thread) / "task" / str(thread) / "stat"
    try:
        ticks = parse_guest_ticks(path.read_bytes())
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path} has no time of a guest" if ticks is None else ticks * _TICK_NS


def _steal_ns(cpus: Iterable[int], proc: Path) -> dict[int, int | str]:
    path = proc / "stat"
    try:
        rows = {fields[0]: fields for line in path.read_text().splitlines() if (fields := line.split())}
    except OSError as error:
        return dict.fromkeys(cpus, f"{path}: {error.strerror}")
    counts: dict[int, int | str] = {}
    for cpu in cpus:
        fields = rows.get(f"cpu{cpu}", [])
        has_count = len(fields) > _STEAL_COLUMN and fields[_STEAL_COLUMN].isdigit()
        counts[cpu] = int(fields[_STEAL_COLUMN]) * _TICK_NS if has_count else f"{path} has no steal of this CPU"
    return counts
