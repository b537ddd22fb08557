"""The processes of this host, the CPU time that each has used, and which of them are ours.

``/proc/PID/stat`` counts user and system time of all threads of a process, ended ones with them, and that of children
that it has waited for, each in clock ticks (fields 14 to 17 of proc_pid_stat(5)). Two tables give who ran between: a
process that came and went within is in its parent's count of children.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_INITIAL_NAMESPACE = 0xEFFF_FFFC
"""``PROC_PID_INIT_INO`` (include/linux/proc_ns.h, since 3.8)."""
_KERNEL_THREAD = 0x0020_0000
"""``PF_KTHREAD`` (include/linux/sched.h, since 2.6.27) in field 9."""
# Fields of proc_pid_stat(5) behind the name, which may hold spaces and parentheses; field 3 is number 0.
_PARENT, _FLAGS, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM, _STARTED, _PROCESSOR = 1, 6, 11, 12, 13, 14, 19, 36


@dataclass(frozen=True)
class Process:
    """What the kernel has counted of a process."""

    pid: int
    """As ``/proc`` shows it."""
    started_ticks: int
    """Since boot; with the id it tells a process from all others."""
    parent: int
    name: str
    cpu_ticks: int
    """Of all its threads, also of those that have ended."""
    children_ticks: int
    """Of children that have ended and were waited for, and of theirs."""
    is_kernel: bool


@dataclass(frozen=True)
class Gain:
    """What a process used between two tables."""

    process: Process
    of_itself: int
    """Clock ticks."""
    of_children: int
    """The same, of children that ended meanwhile."""

    @property
    def ticks(self) -> int:
        return self.of_itself + self.of_children


def parse_process(stat: bytes) -> Process | None:
    opening, closing = stat.find(b"("), stat.rfind(b")")
    fields = stat[closing + 1 :].split()
    if opening < 0 or len(fields) <= _STARTED:
        return None
    return Process(
        pid=int(stat[:opening]),
        started_ticks=int(fields[_STARTED]),
        parent=int(fields[_PARENT]),
        name=stat[opening + 1 : closing].decode("utf-8", "replace"),
        cpu_ticks=int(fields[_USER]) + int(fields[_SYSTEM]),
        children_ticks=int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM]),
        is_kernel=bool(int(fields[_FLAGS]) & _KERNEL_THREAD),
    )


def parse_processor(stat: bytes) -> int | None:
    """Read from a thread's ``stat`` the CPU that it ran on last (field 39, since Linux 2.2.8)."""
    fields = stat[stat.rfind(b")") + 1 :].split()
    return int(fields[_PROCESSOR]) if len(fields) > _PROCESSOR else None


def read_processes(proc: Path = PROC) -> dict[int, Process]:
    """Read the table of processes, by id; those that end meanwhile are left out."""
    found = {}
    with os.scandir(proc) as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        try:
            process = parse_process((proc / name / "stat").read_bytes())
        except OSError:
            continue  # it ended meanwhile, or is not shown to us
        if process is not None:
            found[process.pid] = process
    return found


def own_id(proc: Path = PROC) -> int | None:
    """Give this process's id as ``/proc`` shows it; None where it shows processes of another PID namespace only."""
    try:
        return int((proc / "self").readlink().name)
    except (OSError, ValueError):
        return None


def sees_everybody(proc: Path = PROC) -> bool:
    """Tell whether this is the initial PID namespace, in which all processes of the machine are shown."""
    try:
        return (proc / "self/ns/pid").readlink().name == f"pid:[{_INITIAL_NAMESPACE}]"
    except OSError:
        return False


def descendants(processes: Mapping[int, Process], root: int) -> set[int]:
    """Give a process and all below it, by their ids."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, [])
    return found


def gains(before: Mapping[int, Process], after: Mapping[int, Process]) -> list[Gain]:
    """Give what each process of the later table used since the earlier one, those that used most first.

    What a child had used before the earlier table is not its parent's when it ends.
    """
    ended: dict[int, int] = {}
    for one in before.values():
        if not _is_same(after.get(one.pid), one):
            ended[one.parent] = ended.get(one.parent, 0) + one.cpu_ticks + one.children_ticks
    found = []
    for process in after.values():
        earlier = before.get(process.pid)
        known = earlier if _is_same(earlier, process) else None
        own = process.cpu_ticks - (known.cpu_ticks if known else 0)
        children = process.children_ticks - (known.children_ticks if known else 0)
        children = max(0, children - ended.get(process.pid, 0)) if known else 0
        if own + children > 0:
            found.append(Gain(process, own, children))
    return sorted(found, key=lambda gain: (-gain.ticks, gain.process.pid))


def last_cpus(pid: int, proc: Path = PROC) -> set[int]:
    """Give the CPUs that the threads of a process ran on last; none if it has ended."""
    found = set()
    for folder in _tasks(pid, proc):
        try:
            cpu = parse_processor((folder / "stat").read_bytes())
        except OSError:
            continue  # it ended meanwhile
        if cpu is not None:
            found.add(cpu)
    return found


def thread_times(pids: Iterable[int], proc: Path = PROC) -> dict[tuple[int, int], tuple[int, int | None]]:
    """Give how long each thread of some processes has run, in ns, and the CPU that it ran on last.

    Returns:
        By process and thread; a kernel without CONFIG_SCHED_INFO gives none.
    """
    found: dict[tuple[int, int], tuple[int, int | None]] = {}
    for pid in pids:
        for folder in _tasks(pid, proc):
            try:
                run_ns = int((folder / "schedstat").read_bytes().split()[0])
                found[pid, int(folder.name)] = run_ns, parse_processor((folder / "stat").read_bytes())
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
    return found


def environment_value(pid: int, name: str, proc: Path = PROC) -> str | None:
    """Give a variable that a process was started with; None where it has none, or is not ours to look at."""
    try:
        variables = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    start = f"{name}=".encode()
    return next((one[len(start) :].decode("utf-8", "replace") for one in variables if one.startswith(start)), None)


def _tasks(pid: int, proc: Path) -> list[Path]:
    try:
        return list((proc / str(pid) / "task").iterdir())
    except OSError:
        return []


def _is_same(one: Process | None, other: Process | None) -> bool:
    return one is not None and other is not None and (one.pid, one.started_ticks) == (other.pid, other.started_ticks)
