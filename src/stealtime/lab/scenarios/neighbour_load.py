"""The load of a neighbour, and the memory that it needs."""

from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.memory import read_memory_room
from stealtime.lab.scenarios.caches import default_block_bytes
from stealtime.lab.scenarios.placement import PlacedNeighbour, Placement
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.quantities import approximate_size
from stealtime.wire.connection import AgentConnection
from stealtime.wire.load import CpuLoad, LoadOutcome, LoadRequest, MemoryLoad

_GUEST_KERNEL_BYTES = 96 << 20
"""What a guest needs beside the two blocks of its memory load: kernel, initramfs, agent. It boots with 64 MiB."""

_KERNEL_SHARE_DIVISOR = 32
"""Of all its memory the kernel keeps so much for itself: 64 bytes for each page, and what it never gives away."""

_LOAD_SHARE_DIVISOR = 2
"""The agent gives a load no more than half of the memory that may still be used (``crates/probe/src/load/mod.rs``)."""


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


def refuse_too_much_memory(placement: Placement) -> None:
    """Refuse blocks that this host has no room for, before its kernel begins to kill."""
    blocks_bytes = [2 * _block_bytes(placed) for placed in placement.neighbours if placed.load == "memory-load"]
    room = read_memory_room()
    if room is not None and sum(blocks_bytes) > room.bytes:
        raise StealtimeError(
            f"{len(blocks_bytes)} neighbours of {placement.scenario} copy blocks of "
            f"{approximate_size(sum(blocks_bytes))} together, and {approximate_size(room.bytes)} are available"
            f"{room.reason}",
            hint="give them a smaller `block`, or free some memory",
        )


def load_request(placed: PlacedNeighbour, cpus: tuple[int, ...]) -> LoadRequest:
    """Say to a neighbour's agent what to do.

    Args:
        placed: The neighbour, with a load of its own.
        cpus: Where its load may run, as its own machine counts CPUs.
    """
    kind = CpuLoad() if placed.load == "cpu-load" else MemoryLoad(block_bytes=_block_bytes(placed))
    return LoadRequest(kind=kind, cpus=list(cpus), priority=placed.priority, on_ns=placed.on_ns, off_ns=placed.off_ns)


def memory_needed_bytes(placed: PlacedNeighbour) -> int:
    """Give the memory that a guest needs for its load, in whole MiB; a block is copied to another of its size."""
    blocks_bytes = 2 * _block_bytes(placed) if placed.load == "memory-load" else 0
    needed_bytes = _GUEST_KERNEL_BYTES + _LOAD_SHARE_DIVISOR * blocks_bytes
    needed_bytes += needed_bytes // _KERNEL_SHARE_DIVISOR
    return -(-needed_bytes >> 20) << 20


def _block_bytes(placed: PlacedNeighbour) -> int:
    return placed.block_bytes or default_block_bytes()
