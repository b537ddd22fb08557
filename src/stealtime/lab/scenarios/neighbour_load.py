"""The load of a neighbour, and the memory that it needs."""

from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.memory import read_memory_room
from stealtime.lab.scenarios.caches import default_block_bytes
from stealtime.lab.scenarios.placement import PlacedNeighbour, Placement
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import approximate_size
from stealtime.wire.connection import AgentConnection
from stealtime.wire.load import CpuLoad, LoadOutcome, LoadRequest, MemoryLoad

_GUEST_KERNEL_BYTES = 96 << 20
"""What a guest needs beside the two blocks of its memory load: kernel, initramfs, agent. It boots with 64 MiB."""

_KERNEL_SHARE_DIVISOR = 16
"""Of all its memory the kernel keeps so much for itself: 64 bytes for each page, and what it never gives away. A guest
of 4059 MiB had 3800 MiB to give: 163 MiB less beside what every guest needs, a twenty-fifth."""

_LOAD_SHARE_DIVISOR = 2
"""The agent gives blocks at most half of the memory that may still be used (``crates/probe/src/load/needs.rs``)."""


@dataclass(frozen=True)
class Loaded:
    """What a neighbour's load did during a trial."""

    load: LoadRequest
    outcome: LoadOutcome
    table: Path
    """The Arrow stream ``load``: ``thread``, ``start``, ``duration``, ``work``, in its machine's own counter."""


@dataclass(frozen=True)
class LoadOn:
    """A load that was started and not yet stopped."""

    connection: AgentConnection
    load: LoadRequest
    trial: int
    folder: Path
    """Where its table is put."""

    async def end(self, *, is_whole: bool) -> Loaded:
        """Stop it and take what it recorded, whole or not: a load has no end of its own to wait for.

        Raises:
            StealtimeError: The channel failed, or the table is not complete.
        """
        result = await self.connection.stop_load(self.trial, self.folder)
        return Loaded(self.load, result.outcome, result.load)


def refuse_too_much_memory(placement: Placement, guest_bytes: int | None) -> None:
    """Refuse machines and blocks that this host has no room for together, before its kernel begins to kill.

    Args:
        placement: Of a machine and its neighbours.
        guest_bytes: The memory of the machine, and of each neighbour that is one; None where all are processes.

    Raises:
        UsageError: They take more than may still be used.
    """
    guests = [one for one in placement.neighbours if guest_bytes is not None and one.kind == "machine"]
    blocks = [2 * _block_bytes(one) for one in placement.neighbours if one.load == "memory-load" and one not in guests]
    guests_bytes = 0
    if guest_bytes is not None:
        guests_bytes = guest_bytes + sum(guest_memory_bytes(one, guest_bytes) for one in guests)
    # Whichever of the processes asks its agent last finds the others there.
    needed_bytes = guests_bytes + sum(blocks) + (_LOAD_SHARE_DIVISOR - 1) * max(blocks, default=0)
    room = read_memory_room()
    if not (guests or blocks) or room is None or needed_bytes <= room.bytes:
        return
    words = []
    if guests:
        words.append(f"the machine and {len(guests)} neighbours of {placement.scenario} have")
        words.append(f"{approximate_size(guests_bytes)} of memory")
    if blocks:
        words.append(f"{'and ' if guests else ''}{len(blocks)} neighbours of {placement.scenario} copy blocks of")
        words.append(approximate_size(sum(blocks)))
    half = ", of which a load gets no more than half" if blocks else ""
    raise UsageError(
        f"{' '.join(words)} together, and {approximate_size(room.bytes)} are available{room.reason}{half}",
        hint="give them less `memory` or a smaller `block`, or free some memory",
    )


def load_request(placed: PlacedNeighbour, cpus: tuple[int, ...]) -> LoadRequest:
    """Say to a neighbour's agent what to do.

    Args:
        placed: The neighbour, with a load of its own.
        cpus: Where its load may run, as its own machine counts CPUs.
    """
    kind = CpuLoad() if placed.load == "cpu-load" else MemoryLoad(block_bytes=_block_bytes(placed))
    return LoadRequest(kind=kind, cpus=list(cpus), priority=placed.priority, on_ns=placed.on_ns, off_ns=placed.off_ns)


def guest_memory_bytes(placed: PlacedNeighbour, usual_bytes: int) -> int:
    """Give the memory of a neighbour that is a guest: as usual, or more where its blocks would not fit."""
    return max(usual_bytes, memory_needed_bytes(placed))


def memory_needed_bytes(placed: PlacedNeighbour) -> int:
    """Give the memory that a guest needs for its load, in whole MiB; a block is copied to another of its size."""
    blocks_bytes = 2 * _block_bytes(placed) if placed.load == "memory-load" else 0
    needed_bytes = _GUEST_KERNEL_BYTES + _LOAD_SHARE_DIVISOR * blocks_bytes
    needed_bytes += needed_bytes // _KERNEL_SHARE_DIVISOR
    return -(-needed_bytes >> 20) << 20


def _block_bytes(placed: PlacedNeighbour) -> int:
    return placed.block_bytes or default_block_bytes()
