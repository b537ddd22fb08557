"""The CPU time of threads, in nanoseconds: a server that answers few phones uses less than a tick in each process.

``/proc/PID/task/TID/schedstat`` begins with it, then comes how long the thread waited for a CPU while it could have run
(Documentation/scheduler/sched-stats.rst); ``stat`` counts in 10 ms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Scheduled:
    """What all threads of a process together had of CPUs since they began."""

    used_ns: int
    waited_ns: int
    """For which they were runnable and had no CPU."""


def thread_times_ns(pid: int, proc: Path = _PROC) -> list[int]:
    """Give the CPU time of each thread of a process that lives; none where it has ended.

    A thread that has ended takes its own with it: the servers and members here keep theirs.
    """
    return [used_ns for used_ns, _ in _schedstats(pid, proc)]


def scheduled(pid: int, proc: Path = _PROC) -> Scheduled | None:
    """Give what a process had of CPUs; also of one that has ended, until its parent waits for it.

    None where it is gone, or the kernel does not count it (``CONFIG_SCHED_INFO``).
    """
    found = list(_schedstats(pid, proc))
    return Scheduled(sum(used for used, _ in found), sum(waited for _, waited in found)) if found else None


def _schedstats(pid: int, proc: Path) -> Iterator[tuple[int, int]]:
    for task in (proc / str(pid) / "task").glob("*/schedstat"):
        try:
            used_ns, waited_ns, *_ = map(int, task.read_text().split())
            yield used_ns, waited_ns
        except (OSError, ValueError):
            continue  # it has ended meanwhile
