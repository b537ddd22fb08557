"""How much memory this process, and what it starts, may still use.

The least of what the machine has and what each memory group around the process leaves, as the agent reads it
(``crates/memory``, which says why): a group leaves its limit less what it holds, inactive file cache aside.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import approximate_size

_MACHINE = "MemAvailable"
_OCTAL = re.compile(r"\\([0-7]{3})")


class _Files(NamedTuple):
    """Files of one version of groups."""

    limits: tuple[str, ...]
    usage: str
    cache: str
    """The line of ``memory.stat`` that counts a group and all below it."""


_VERSION_1 = _Files(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Files(("memory.max", "memory.high"), "memory.current", "inactive_file")


@dataclass(frozen=True)
class MemoryRoom:
    """What may still be used before the kernel kills somebody."""

    bytes: int
    limit: str
    """What sets it: ``MemAvailable``, or the file of the memory group that leaves least."""

    @property
    def is_of_a_group(self) -> bool:
        """Whether a memory group leaves less than the machine has."""
        return self.limit != _MACHINE

    @property
    def reason(self) -> str:
        """Say what sets it, to be put after a size; empty where it is the machine."""
        return f" (by {self.limit})" if self.is_of_a_group else ""


def read_memory_room(root: Path = Path("/")) -> MemoryRoom | None:
    """Read it.

    Args:
        root: Where ``/proc`` and ``/sys`` are.

    Returns:
        None where neither the kernel nor a group says anything.
    """
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    rooms = [MemoryRoom(int(found[1]) << 10, _MACHINE)] if found else []
    return min([*rooms, *_rooms_of_groups(root)], key=lambda room: room.bytes, default=None)


def _rooms_of_groups(root: Path) -> Iterator[MemoryRoom]:
    groups = _text(root / "proc/self/cgroup")
    for line in _text(root / "proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        name, _, options = ([*kind.split(" "), "", ""])[:3]
        files = _VERSION_2 if name == "cgroup2" else _VERSION_1
        group = _group_in(groups, files)
        if group is None or not (name == "cgroup2" or (name == "cgroup" and "memory" in options.split(","))):
            continue
        shown, point = (_OCTAL.sub(lambda match: chr(int(match[1], 8)), word) for word in place.split(" ")[3:5])
        # Of a group outside of what is mounted here, only what is seen at the mount counts.
        below = group.relative_to(shown) if group.is_relative_to(shown) else Path()
        innermost = Path(point) if ".." in below.parts else Path(point) / below
        for folder in (innermost, *innermost.parents):
            if folder.is_relative_to(point):
                yield from _rooms_in(root, folder, files)


def _group_in(groups: str, files: _Files) -> Path | None:
    """Find the group in ``/proc/self/cgroup`` (``cgroups(7)``): ``ID:CONTROLLERS:PATH``, none of them in version 2."""
    for line in groups.splitlines():
        _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if controllers == "" if files is _VERSION_2 else "memory" in controllers.split(","):
            return Path(path)
    return None


def _rooms_in(root: Path, folder: Path, files: _Files) -> Iterator[MemoryRoom]:
    here = root / folder.relative_to("/")
    usage = _text(here / files.usage).strip()
    if not usage.isdigit():
        return  # the root of a tree has no limit
    cache = re.search(rf"^{files.cache} (\d+)", _text(here / "memory.stat"), re.MULTILINE)
    held = max(0, int(usage) - (int(cache[1]) if cache else 0))
    for name in files.limits:
        limit = _text(here / name).strip()
        if limit.isdigit():  # "max" is none
            yield MemoryRoom(max(0, int(limit) - held), str(folder / name))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def refuse_machine_of(memory_bytes: int, room: MemoryRoom | None, promised_bytes: int = 0) -> None:
    """Refuse a machine that this host cannot hold: its memory comes page by page, so it would be killed when it runs.

    Raises:
        UsageError: It has more memory than there is for it.
    """
    if room is None or memory_bytes <= room.bytes - promised_bytes:
        return
    there = approximate_size(max(0, room.bytes - promised_bytes)) + " to give" + room.reason
    promised = f", as {approximate_size(promised_bytes)} are promised to other machines" if promised_bytes else ""
    raise UsageError(
        f"the machine has {approximate_size(memory_bytes)} of memory, and this host {there}{promised}",
        hint="give it less memory, or end something on this host"
        + (", or raise the limit of the group" if room.is_of_a_group else ""),
    )
