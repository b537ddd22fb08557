"""A machine that is up: what is around it, and what a trial on it gives."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from stealtime.campaigns.planned import PlannedCell
from stealtime.lab.scenarios.neighbours import Neighbours
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.tracing.host import HostTracer
from stealtime.store.model import TrialRecord
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.writer import Tables


@dataclass(frozen=True)
class TrialSetup:
    """What is up around one machine."""

    host: str
    """Its name."""
    placement: Placement
    neighbours: Neighbours
    tracer: HostTracer | None
    """Records the host and reads its clocks; None where nothing needs that."""


@dataclass(frozen=True)
class Measured:
    """A trial that has an outcome."""

    record: TrialRecord
    tables: Tables | None
    """None where the record is all there is."""


KeepPart = Callable[[TrialRecord, ResultKind, Streams], Awaitable[None]]
"""Has a part of a trial on the disk: what came of the trial so far, the kind of its result, and the tables of what was
measured since the part before."""


async def keep_nothing(_record: TrialRecord, _kind: ResultKind, _streams: Streams) -> None:
    """Let the parts of a trial go."""


class Booted(Protocol):
    """A machine that is up, with what is around it."""

    async def measure(self, cell: PlannedCell, keep: KeepPart = keep_nothing) -> Measured:
        """Carry out one trial.

        Args:
            cell: What to measure.
            keep: Awaited with each part of a trial that gives parts while it goes on.

        Raises:
            StealtimeError: There is no outcome.
        """
        ...

    async def stop(self) -> bool:
        """Ask the trial that is carried out to end now: ``measure`` then gives what was measured.

        Returns:
            False where it cannot be asked.
        """
        ...

    async def is_alive(self) -> bool:
        """Tell whether it answers, and all that is around it lives."""
        ...

    def end(self) -> str | None:
        """Say why it, or what was around it, is gone; None as far as nothing is known."""
        ...
