"""The progress events of a runner; a display implements :class:`Observer`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.planner import Plan
from stealtime.store.model import Failure, TrialRecord


@dataclass(frozen=True)
class RunStarted:
    """The run's folder is there and measuring begins."""

    plan: Plan
    expected_s: float
    folder: Path


@dataclass(frozen=True)
class Calibrating:
    """The busy loop is being calibrated natively."""


@dataclass(frozen=True)
class Booting:
    """A machine is being booted."""

    boot: PlannedBoot
    again: bool
    """It died and gets its second chance."""


@dataclass(frozen=True)
class CellStarted:
    """A trial is about to be requested."""

    cell: PlannedCell


@dataclass(frozen=True)
class CellPreparing:
    """What takes long before a trial is going on, as its driver tells."""

    cell: PlannedCell
    words: str


@dataclass(frozen=True)
class CellProgressed:
    """A trial is running; only reported by machines with a CPU besides the measured one."""

    cell: PlannedCell
    elapsed_ns: int
    samples: int
    max_ns: float


@dataclass(frozen=True)
class CellStoring:
    """The samples are here and become Parquet."""

    cell: PlannedCell


@dataclass(frozen=True)
class CellStopping:
    """A trial was asked to end, because the run was interrupted; what it measured is still to come."""

    cell: PlannedCell


@dataclass(frozen=True)
class CellCutShort:
    """A part of a trial is on disk; the rest was not measured."""

    cell: PlannedCell
    record: TrialRecord


@dataclass(frozen=True)
class CellDropped:
    """The run was interrupted and nothing could be kept of the trial that was carried out."""

    cell: PlannedCell


@dataclass(frozen=True)
class CellMeasured:
    """A trial is whole on disk."""

    cell: PlannedCell
    record: TrialRecord


@dataclass(frozen=True)
class CellFailed:
    """A trial failed, finally; the run goes on."""

    cell: PlannedCell
    failure: Failure


@dataclass(frozen=True)
class MachineLost:
    """A machine died or went silent; the cells that it still owed are tried again on a new one."""

    boot: PlannedBoot
    reason: str


Event = (
    RunStarted
    | Calibrating
    | Booting
    | CellStarted
    | CellPreparing
    | CellProgressed
    | CellStoring
    | CellStopping
    | CellCutShort
    | CellDropped
    | CellMeasured
    | CellFailed
    | MachineLost
)


class Observer(Protocol):
    """Sees what happens; it must be quick, because the runner waits for it."""

    def on_event(self, event: Event) -> None: ...
