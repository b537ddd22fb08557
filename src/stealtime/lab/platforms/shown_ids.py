"""Translation between the process ids of our PID namespace and those that ``/proc`` shows.

In a PID namespace without a ``/proc`` of its own (``unshare --pid --fork``) system calls and QEMU give and take ids of
that namespace, and ``/proc`` shows those of the one around. Where that is the initial one, they are also the trace's.
``NSpid`` (proc_pid_status(5), since Linux 4.1) holds both.
"""

from collections.abc import Iterator
from pathlib import Path

from stealtime.lab.platforms.failure import MachineError

_PROC = Path("/proc")


def shown_process(pid: int, proc: Path = _PROC) -> int:
    """Give the id by which ``/proc`` shows a process of our own PID namespace.

    Raises:
        MachineError: It shows no such process.
    """
    level = _own_level(proc)
    if level == 0:
        return pid
    ours = (proc / "self/ns/pid").readlink()
    for entry in proc.iterdir():
        try:
            if entry.name.isdigit() and _ids(entry)[level:] == [pid] and (entry / "ns/pid").readlink() == ours:
                return int(entry.name)
        except OSError:
            continue  # it ended meanwhile, or is not ours to look at
    raise MachineError(f"{proc}, which is of another PID namespace, does not show the process {pid}")


def threads_of(shown: int | str, proc: Path = _PROC) -> Iterator[tuple[Path, int]]:
    """Give the folder of each thread of a process, by its shown id, and the id by which system calls know it here."""
    level = _own_level(proc)
    try:
        folders = sorted((proc / str(shown) / "task").iterdir(), key=lambda folder: int(folder.name))
    except OSError:
        return  # the process has ended
    for folder in folders:
        if level == 0:
            yield folder, int(folder.name)
            continue
        try:
            ids = _ids(folder)
        except OSError:
            continue  # it ended meanwhile
        if len(ids) > level:
            yield folder, ids[level]


def _own_level(proc: Path) -> int:
    """Give the place of our own namespace's id in ``NSpid``: 0 where ``/proc`` is ours."""
    return max(0, len(_ids(proc / "self")) - 1)


def _ids(folder: Path) -> list[int]:
    # The name of a process is any bytes.
    for line in (folder / "status").read_text("utf-8", "replace").splitlines():
        if line.startswith("NSpid:"):
            return [int(one) for one in line.split()[1:]]
    return []
