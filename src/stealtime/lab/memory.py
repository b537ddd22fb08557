"""How much memory this process, and what it starts, may still use."""

from dataclasses import dataclass
from pathlib import Path

from stealtime._core import memory_room
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import approximate_size

_MACHINE = "MemAvailable"


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
    """Read it, as the agent does (``crates/memory``): the least of the machine and of all memory groups around.

    Args:
        root: Where ``/proc`` and ``/sys`` are.

    Returns:
        None where neither the kernel nor a group says anything.
    """
    room = memory_room(root)
    return MemoryRoom(*room) if room else None


def refuse_machine_of(memory_bytes: int, room: MemoryRoom | None) -> None:
    """Refuse a machine that this host cannot hold: its memory comes page by page, so it would be killed when it runs.

    Raises:
        UsageError: It has more memory than may still be used here.
    """
    if room is not None and memory_bytes > room.bytes:
        raise UsageError(
            f"the machine has {approximate_size(memory_bytes)} of memory, and this host {approximate_size(room.bytes)} "
            f"to give{room.reason}",
            hint="give it less memory, or end something on this host"
            + (", or raise the limit of the group" if room.is_of_a_group else ""),
        )
