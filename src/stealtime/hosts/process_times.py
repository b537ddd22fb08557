"""The CPU time of threads, in nanoseconds: a server that answers few phones uses less than a tick in each process.

``/proc/PID/task/TID/schedstat`` begins with it (Documentation/scheduler/sched-stats.rst); ``stat`` counts in 10 ms.
"""

from pathlib import Path

_PROC = Path("/proc")


def thread_times_ns(pid: int, proc: Path = _PROC) -> list[int]:
    """Give the CPU time of each thread of a process that lives; none where it has ended.

    A thread that has ended takes its own with it: the servers and members here keep theirs.
    """
    times = []
    for task in (proc / str(pid) / "task").glob("*/schedstat"):
        try:
            times.append(int(task.read_text().split()[0]))
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
    return times
