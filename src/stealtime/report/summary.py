"""The figures of a run: what ``stealtime show --json`` prints. What a cell holds is its study's."""

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Discriminator, Field, Tag

from stealtime.campaigns.registry import studies
from stealtime.report.answer import Answer
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import CellFigures
from stealtime.report.gate import Gate
from stealtime.report.moment import Moment
from stealtime.store.model import Cell
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.late_type import LateType
from stealtime.vocabulary.readings import Facts

SCHEMA_VERSION = 3
"""Of :class:`RunSummary`; rises when an older reader could misunderstand a newer document."""
_Cell = TypeVar("_Cell", bound=CellFigures)


def _any_cell() -> Any:
    """Give the figures that a cell may have: the key ``study`` tells which."""
    models = [Annotated[study.figures, Tag(study.name)] for study in studies()]
    return models[0] if len(models) == 1 else Annotated[reduce(or_, models), Discriminator(_study_of)]


def _study_of(cell: Any) -> str:
    # Documents from the time when there was but one study do not name it.
    return str(cell.get("study", studies()[0].name) if isinstance(cell, dict) else cell.study)


class RunSummary(Figures):
    """A run in figures."""

    schema_version: Literal[3] = 3
    run_id: str
    created_at: datetime
    campaign: str
    host: Facts
    cells: Sequence[Annotated[CellFigures, LateType(_any_cell)]]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Scenarios of the campaign that cannot be honest on this host, and why."""
    state: str = "finished"
    """Of the run: ``running``, ``finished`` or ``interrupted``."""
    missing: list[Cell] = Field(default_factory=list)
    """Cells that were planned, of which a repetition is not there."""
    missing_trials: int | None = 0
    """How many repetitions of them; None where that is not known, as an earlier version was interrupted."""
    unobtainable: list[str] = Field(default_factory=list)
    """A sentence for each platform and scenario that was asked for by name and cannot be had."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """What an alias of the campaign, such as ``emulated``, stands for on this host."""
    findings: list[Finding] = Field(default_factory=list)
    """What was found of the host just before the run."""
    answers: list[Answer] = Field(default_factory=list)
    """What each study says of its cells, in one sentence and a few lines."""
    moments: list[Moment] = Field(default_factory=list)
    """The first sample over the threshold of ``run --on-threshold``, of each trial that has one."""
    gate: Gate | None = None
    """The cells held against the thresholds of the run (``run --max-overhead``); None where there are none."""

    def cells_of(self, model: type[_Cell]) -> list[_Cell]:
        """Give the cells whose figures are of a model: those of a study."""
        return [cell for cell in self.cells if isinstance(cell, model)]
