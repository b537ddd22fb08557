"""The figures of a run: what ``stealtime show --json`` prints. What a cell holds is its study's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from stealtime.campaigns.registry import studies, study_of
from stealtime.campaigns.strangers import findings_of
from stealtime.report.strangers import StrangersFigures, strangers_figures
from stealtime.store.run import Run, Trial
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.late_type import LateType
from stealtime.vocabulary.readings import Facts

if TYPE_CHECKING:
    from stealtime.report.tails.series import TailSeries

SCHEMA_VERSION = 1
"""Of :class:`RunSummary`; rises when an older reader could misunderstand a newer document."""


class Figures(BaseModel):
    """A part of the document: nothing unknown is accepted and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Watched:
    """The longest value of a quantity that a cell measures, to be held against a bar."""

    longest_ns: float | None
    """None where nothing was measured."""
    watched_s: float
    """How long it was looked for, all valid repetitions together."""
    hindrance: str | None = None
    """Why a longer value may have been there that is none of the machine's; None where nothing is known against it."""


class CellFigures(Figures):
    """A cell: all its repetitions. Each study adds what it found."""

    quantities: ClassVar[Mapping[str, str]] = {}
    """What of the study's cells can be held against bars of acceptance (``show --accept``), and what each is."""

    study: str
    """By which it is told what else the cell holds."""
    platform: str
    scenario: str
    probe: str
    parameters: dict[str, JsonValue]
    valid: bool
    """Whether all repetitions may be used."""
    reasons: list[str]
    """Why repetitions may not be used, or failed."""
    limits: list[str]
    """What limits the result."""
    traced: bool = False
    """Whether host and machine were traced meanwhile, which costs something."""
    scaled: str | None = None
    """How the scenario's "all" was scaled from the paper's four CPUs to those of the host; None where it was not."""
    strangers: StrangersFigures | None = None
    """What others took of its CPUs meanwhile; None where nobody looked."""

    @property
    def key(self) -> tuple[str, str, str, tuple[tuple[str, str], ...], bool]:
        """What makes two cells of different runs the same cell."""
        parameters = tuple(sorted((name, repr(value)) for name, value in self.parameters.items()))
        return (self.platform, self.scenario, self.probe, parameters, self.traced)

    @property
    def not_alone(self) -> str | None:
        """Who was beside it that nobody asked for, and how much they had, in a sentence; None where it was alone."""
        return None if self.strangers is None or not self.strangers.not_alone else self.strangers.words

    @property
    def is_measured(self) -> bool:
        """Whether there is a result, valid or not."""
        raise NotImplementedError

    @property
    def lines(self) -> list[str]:
        """The figures that are told of it where there is no table, a line each."""
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, JsonValue]:
        """Its figures as a line of a table, with units in the names: the same names for all cells of a study."""
        raise NotImplementedError

    def watched(self, _quantity: str) -> Watched | None:
        """Give the longest value of one of its ``quantities``; None where this cell does not measure it."""
        return None

    def tail_series(self, _trials: Sequence[Trial]) -> "TailSeries | None":
        """Give the values whose tail can be estimated, from its measured trials in order; None where it has none."""
        return None

    def overhead_beyond_ns(self, _threshold_ns: int | None) -> float | None:
        """Give the overhead of a valid cell that is over a threshold; None where a study knows no overhead."""
        return None


def _any_cell() -> Any:
    """Give the figures that a cell may have: the key ``study`` tells which."""
    models = [Annotated[study.figures, Tag(study.name)] for study in studies()]
    return models[0] if len(models) == 1 else Annotated[reduce(or_, models), Discriminator(_study_of)]


def _study_of(cell: Any) -> str:
    # Documents from the time when there was but one study do not name it.
    return str(cell.get("study", studies()[0].name) if isinstance(cell, dict) else cell.study)


class RunSummary(Figures):
    """A run in figures."""

    schema_version: Literal[1] = 1
    run_id: str
    created_at: datetime
    campaign: str
    host: Facts
    cells: Sequence[Annotated[CellFigures, LateType(_any_cell)]]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Scenarios of the campaign that cannot be honest on this host, and why."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """What an alias of the campaign, such as ``emulated``, stands for on this host."""
    findings: list[Finding] = Field(default_factory=list)
    """What was found of the host just before the run."""


_Cell = TypeVar("_Cell", bound=CellFigures)


def plain_cells(cells: Sequence[_Cell]) -> list[_Cell]:
    """Give the cells to compare platforms by: a traced one only where it was not measured untraced as well."""
    untraced = {cell.key[:4] for cell in cells if not cell.traced}
    return [cell for cell in cells if not cell.traced or cell.key[:4] not in untraced]


def summarize(run: Run) -> RunSummary:
    """Compute the figures of every cell of ``run``, in the order in which they were first measured.

    A trial whose samples cannot be read is invalid and says why; the others are not touched by that.

    Raises:
        StealtimeError: A document of the run is damaged, or a probe belongs to no study of this version.
    """
    cells: dict[str, list[Trial]] = {}
    for trial in run.trials:
        cells.setdefault(trial.record.cell.name, []).append(trial)
    return RunSummary(
        run_id=run.manifest.run_id,
        created_at=run.manifest.created_at,
        campaign=run.manifest.campaign_name,
        host=run.manifest.host,
        cells=_related([_summarized(trials) for trials in cells.values()]),
        aliases=run.manifest.aliases,
        findings=run.manifest.findings,
        skipped={record.name: record.skipped for record in run.manifest.scenarios if record.skipped is not None},
    )


def _summarized(trials: Sequence[Trial]) -> CellFigures:
    """Have the study summarize a cell, and add what every cell has."""
    cell = study_of(trials[0].record.cell.probe).summarize_cell(trials)
    watched = [trial.record.strangers for trial in trials if trial.record.strangers is not None]
    limits = [*cell.limits, *(finding.text for record in watched for finding in findings_of(record))]
    return cell.model_copy(update={"strangers": strangers_figures(watched), "limits": list(dict.fromkeys(limits))})


def _related(cells: Sequence[CellFigures]) -> list[CellFigures]:
    """Have each study relate its own cells, which stay where they are in the order."""
    own = {study.name: iter(study.relate([cell for cell in cells if cell.study == study.name])) for study in studies()}
    return [next(own[cell.study]) for cell in cells]
