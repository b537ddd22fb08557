"""The figures of a cell: what every study has of it. Each study adds what it found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from pydantic import Field, JsonValue, model_validator

from stealtime.report.cells.figures import Figures
from stealtime.report.cells.surroundings import Clock, HypervisorFigures, MeasuredTrial, PlacementFigures
from stealtime.report.strangers import StrangersFigures
from stealtime.store.model import Cell

if TYPE_CHECKING:
    from stealtime.report.interval import Interval


@dataclass(frozen=True)
class Watched:
    """The longest value of a quantity that a cell measures, to be held against a bar."""

    longest_ns: float | None
    """None where nothing was measured."""
    watched_s: float
    """How long it was looked for, all valid repetitions together."""
    hindrance: str | None = None
    """Why a longer value may have been there that is none of the machine's; None where nothing is known against it."""


@dataclass(frozen=True)
class Bounded:
    """What of a cell ``run --max-overhead`` judges."""

    longest_ns: float | None
    """The longest value that was seen; None where none was."""
    unknown_because: str | None = None
    """Why a value that is not too long is no pass: a longer one may have been there. None where nothing is known."""
    samples: int | None = None
    """Of how many it is a percentile; None for the longest value."""
    endless: str | None = None
    """What had no end and is therefore beyond any threshold; None where all had one."""


class CellFigures(Figures):
    """A cell: all its repetitions, with the circumstances of their measurement."""

    quantities: ClassVar[Mapping[str, str]] = {}
    """What of the study's cells can be held against bars of acceptance (``show --accept``), and what each is."""

    study: str
    """The discriminator: the study."""
    platform: str
    scenario: str
    probe: str
    parameters: dict[str, JsonValue]
    valid: bool
    """Whether all repetitions may be used."""
    reasons: list[str]
    """Why repetitions may not be used, or failed."""
    too_short: list[str] = Field(default_factory=list)
    """Which repetitions watched for less long than was asked for: how long, and why."""
    not_as_asked: list[str] = Field(default_factory=list)
    """In what else repetitions are not what was asked for, though they may be used as what they are."""
    limits: list[str]
    """What limits the result."""
    traced: bool = False
    """Whether host and machine were traced meanwhile, which costs something."""
    scaled: str | None = None
    """How the scenario's "all" was scaled from the paper's four CPUs to those of the host; None where it was not."""
    clock: Clock | None = None
    """None where nothing was measured, and of a driver whose moments are the host's."""
    placement: PlacementFigures | None = None
    """None where nothing was measured."""
    hypervisor: HypervisorFigures | None = None
    """The medians over the repetitions that the figures are of; None where none of them has any."""
    trials: Sequence[MeasuredTrial] = ()
    """All repetitions, in their order."""

    strangers: StrangersFigures | None = None
    """What others took of its CPUs meanwhile; None where nobody looked."""

    @model_validator(mode="after")
    def _valid_without_reasons(self) -> Self:
        if self.valid is bool(self.reasons):
            raise ValueError("a cell is valid if and only if nothing speaks against it")
        return self

    @property
    def key(self) -> tuple[str, str, str, tuple[tuple[str, str], ...], bool]:
        """What makes two cells of different runs the same cell."""
        parameters = tuple(sorted((name, repr(value)) for name, value in self.parameters.items()))
        return (self.platform, self.scenario, self.probe, parameters, self.traced)

    @property
    def stored(self) -> Cell:
        """The cell as the run names it."""
        return Cell.model_validate({name: getattr(self, name) for name in Cell.model_fields})

    @property
    def not_alone(self) -> str | None:
        """Who was beside it that nobody asked for, and how much they had, in a sentence; None where it was alone."""
        return None if self.strangers is None or not self.strangers.not_alone else self.strangers.words

    @property
    def is_measured(self) -> bool:
        """Whether there is a result, valid or not."""
        return any(trial.is_measured for trial in self.trials)

    @property
    def fell_short(self) -> list[str]:
        """All in which it is not what was asked for: a reader may use it, and nobody may take it for a pass."""
        return [*self.too_short, *self.not_as_asked]

    @property
    def lines(self) -> list[str]:
        """The figures that are told of it where there is no table, a line each."""
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, JsonValue]:
        """Its figures as a line of a table, with units in the names: the same names for all cells of a study."""
        raise NotImplementedError

    @property
    def intervals(self) -> "Mapping[str, Interval]":
        """The figures that have an interval, by name, each with the value that the interval is of."""
        return {}

    def watched(self, _quantity: str) -> Watched | None:
        """Give the longest value of one of its ``quantities``; None where this cell does not measure it."""
        return None

    def bounded(self) -> Bounded | None:
        """Give what ``run --max-overhead`` judges of it, if it is valid; None where others are held against it.

        What that is, its probe says in words (``Probe.bounded``).
        """
        return Bounded(None, unknown_because=f"the probe {self.probe} has nothing to hold against a threshold")

    def at_percentile(self, _percentile: str) -> Bounded | None:
        """Give what ``run --max-overhead p99.9=100us`` judges of it: a percentile that its probe has, as ``99.9``."""
        return Bounded(None, unknown_because=f"the probe {self.probe} keeps no percentiles")


_Cell = TypeVar("_Cell", bound=CellFigures)


def plain_cells(cells: Sequence[_Cell]) -> list[_Cell]:
    """Give the cells to compare platforms by: a traced one only where it was not measured untraced as well."""
    untraced = {cell.key[:4] for cell in cells if not cell.traced}
    return [cell for cell in cells if not cell.traced or cell.key[:4] not in untraced]
