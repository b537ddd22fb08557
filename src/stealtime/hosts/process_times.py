"""The CPU time of threads, in nanoseconds: a server that answers few phones uses less than a tick in each process.

``/proc/PID/task/TID/schedstat`` begins with it, then comes how long the thread waited for a CPU while it could have run
(Documentation/scheduler/sched-stats.rst); ``stat`` counts in 10 ms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stealtime.capacity.guests.roles import roles_by_name

_PROC = Path("/proc")


@dataclass(frozen=True)
class Scheduled:
    """What all threads of a process together had of CPUs since they began."""

    used_ns: int
    waited_ns: int
    """For which they were runnable and had no CPU."""


def times_by_thread_ns(pid: int, proc: Path = _PROC) -> dict[int, int]:
    """Give the CPU time of each thread of a process that lives, by its id; none where it has ended.

    A thread that has ended takes its own with it: the servers and members here keep theirs.
    """
    return {thread: used_ns for thread, used_ns, _ in _schedstats(pid, proc)}


def thread_times_ns(pid: int, proc: Path = _PROC) -> list[int]:
    """Give the CPU time of each thread of a process, as :func:`times_by_thread_ns` does."""
    return list(times_by_thread_ns(pid, proc).values())


def scheduled(pid: int, proc: Path = _PROC) -> Scheduled | None:
    """Give what a process had of CPUs; also of one that has ended, until its parent waits for it.

    None where it is gone, or the kernel does not count it (``CONFIG_SCHED_INFO``).
    """
    found = list(_schedstats(pid, proc))
    return Scheduled(sum(used for _, used, _ in found), sum(waited for *_, waited in found)) if found else None


def vcpu_threads(pid: int, proc: Path = _PROC) -> frozenset[int]:
    """Give the ids of those threads of a QEMU that run its virtual CPUs, by their names; none where it has ended.

    Members start QEMU with ``debug-threads=on`` (``crates/capture/src/arguments.rs``): ``CPU 0/TCG``, ``CPU 1/KVM``,
    and ``ALL CPUs/TCG`` where one thread translates for all. One that has just begun has none yet.
    """
    names = {}
    for thread in (proc / str(pid) / "task").glob("*"):
        try:
            names[int(thread.name)] = (thread / "comm").read_text().rstrip("\n")
        except (OSError, ValueError):
            continue
    return frozenset(one.tid for one in roles_by_name(names) if one.role == "vcpu")


def _schedstats(pid: int, proc: Path) -> Iterator[tuple[int, int, int]]:
    for thread in (proc / str(pid) / "task").glob("*"):
        try:
            used_ns, waited_ns, *_ = map(int, (thread / "schedstat").read_text().split())
            yield int(thread.name), used_ns, waited_ns
        except (OSError, ValueError):
            continue  # it has ended meanwhile
