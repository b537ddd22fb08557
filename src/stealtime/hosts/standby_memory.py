"""How much memory is used for guests that only stand by: what protection costs the host that backs them.

A guest's memory is a file without a name (``memfd``), whose pages are there once they were written. All else is what
``smaps_rollup`` tells of a process in proportion to who shares it (``Pss``, Documentation/filesystems/proc.rst),
without what is shared memory: that is the guest's, and counted once, by its file.
"""

from collections.abc import Iterable
from pathlib import Path

from stealtime.hosts.members_here import HostProcess
from stealtime.vocabulary.readings import Model

_PROC = Path("/proc")
_MEMORY_FILE = "/memfd:"
_BLOCK_BYTES = 512
"""Of ``st_blocks`` (stat(2))."""


class StandbyMemory(Model):
    """Of all standbys of a testbed together, and the daemons beside them."""

    processes: int
    ram_bytes: int
    """Of the guests' memory, as much as has a page on the host that backs them."""
    other_bytes: int
    """All else that these processes have: programs, buffers, QEMU's own."""

    @property
    def all_bytes(self) -> int:
        return self.ram_bytes + self.other_bytes


def standby_memory(processes: Iterable[HostProcess], proc: Path = _PROC) -> StandbyMemory | None:
    """Read what standbys have; None where nothing stands by, or the kernel does not tell."""
    files: dict[tuple[int, int], int] = {}
    other_bytes, found = 0, 0
    for process in processes:
        if not process.stands_by:
            continue
        own = _own_bytes(proc / str(process.pid) / "smaps_rollup")
        if own is None:
            continue
        found += 1
        other_bytes += own
        files |= _memory_files(proc / str(process.pid) / "fd")
    return StandbyMemory(processes=found, ram_bytes=sum(files.values()), other_bytes=other_bytes) if found else None


def _own_bytes(rollup: Path) -> int | None:
    """Give what a process has beside shared memory; None where it has ended."""
    try:
        lines = rollup.read_text().splitlines()[1:]
    except OSError:
        return None
    kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return 1024 * (kibibytes.get("Pss", 0) - kibibytes.get("Pss_Shmem", 0))


def _memory_files(descriptors: Path) -> dict[tuple[int, int], int]:
    """Give the files without a name that a process has open, by device and number, and what each takes."""
    files = {}
    try:
        for descriptor in descriptors.iterdir():
            if str(descriptor.readlink()).startswith(_MEMORY_FILE):
                seen = descriptor.stat()
                files[seen.st_dev, seen.st_ino] = seen.st_blocks * _BLOCK_BYTES
    except OSError:
        pass  # it has just ended, or closed one of them
    return files
