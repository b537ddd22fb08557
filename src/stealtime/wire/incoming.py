"""The tables of an answer, as they come, and who hears of them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from stealtime.wire.message import Checkpoint, Progress, RunTrial, StreamBegin, StreamName
from stealtime.wire.spool import TableSpool


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears of a trial while it runs."""

    on_progress: Callable[[Progress], None] | None = None
    """Called for each progress message."""
    on_measured: Callable[[], Awaitable[None]] | None = None
    """Awaited once, when the agent announces its first table after the last sample: it has measured, begins to send."""
    keep: Callable[[Checkpoint, Mapping[StreamName, Path]], Awaitable[None]] | None = None
    """Awaited with each part of a trial that comes in parts: what came of it so far, and the Arrow IPC stream files of
    what came since the part before, which are removed when it returns. None drops them."""


NOBODY = Listener()


def longest_silence_s(request: RunTrial, deadline_s: float) -> float:
    """Give how long a trial may be silent: one in parts no longer than until the next is due."""
    if request.checkpoint_ns is None or request.duration_ns <= request.checkpoint_ns:
        return deadline_s
    return deadline_s - (request.duration_ns - request.checkpoint_ns) / 1e9


@dataclass
class IncomingTables:
    """Tables that come."""

    rest: TableSpool
    """For those that are sent at the end."""
    parts: TableSpool | None = None
    """For those of a part; None where none may come."""
    listener: Listener = NOBODY
    come: bool = False
    """Whether one has begun, and no part has ended since."""

    def __post_init__(self) -> None:
        self.now = self.rest

    @classmethod
    def of(cls, request: RunTrial, folder: Path, rest: TableSpool, bulk: BinaryIO | None, listener: Listener) -> Self:
        parts = None if request.checkpoint_ns is None else TableSpool(folder / "part", bulk)
        return cls(rest, parts, listener)

    async def begin(self, message: StreamBegin) -> None:
        if message.is_part and self.parts is not None:
            self.now = self.parts
        else:
            if not self.rest.paths and self.listener.on_measured is not None:
                await self.listener.on_measured()
            self.now = self.rest
        self.now.begin(message.stream)
        self.come = True

    async def keep(self, checkpoint: Checkpoint) -> None:
        if self.parts is not None:
            if self.listener.keep is not None:
                await self.listener.keep(checkpoint, self.parts.paths)
            self.parts.restart()
        self.come = False
