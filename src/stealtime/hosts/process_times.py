"""The CPU time of threads, in nanoseconds: a server that answers few phones uses less than a tick in each process.

``/proc/PID/task/TID/schedstat`` begins with it (Documentation/scheduler/sched-stats.rst); ``stat`` counts in 10 ms.
"""

from pathlib import Path

from stealtime.capacity.guests.roles import roles_by_name

_PROC = Path("/proc")


def times_by_thread_ns(pid: int, proc: Path = _PROC) -> dict[int, int]:
    """Give the CPU time of each thread of a process that lives, by its id; none where it has ended.

    A thread that has ended takes its own with it: the servers and members here keep theirs.
    """
    times = {}
    for thread in (proc / str(pid) / "task").glob("*"):
        try:
            times[int(thread.name)] = int((thread / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
    return times


def thread_times_ns(pid: int, proc: Path = _PROC) -> list[int]:
    """Give the CPU time of each thread of a process, as :func:`times_by_thread_ns` does."""
    return list(times_by_thread_ns(pid, proc).values())


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
