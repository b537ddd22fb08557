"""From the results of a cell's repetitions to its figures, as its study declares them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from stealtime.campaigns.validity import reasons_of
from stealtime.report.catalogue.model import Catalogue, ProbeFigures
from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.records import cell_figures, used_trials
from stealtime.report.interval import Interval
from stealtime.report.repetitions import FigureOfRepetitions
from stealtime.report.studies import study_of
from stealtime.store.model import Cell
from stealtime.store.run import Trial


class CatalogueCell(CellFigures):
    """A cell of a study that declares its figures."""

    repetitions: int
    """The valid ones; where none is, all that were measured."""
    figures: list[FigureOfRepetitions]
    """Those of which the median is told, as far as a repetition has a value."""

    @classmethod
    def fields_of_counts(cls, counts: Mapping[str, int]) -> dict[str, Any]:
        """Give the fields that hold what was added up: here each in one of its name, if there is one."""
        return {name: count for name, count in counts.items() if name in cls.model_fields}

    @classmethod
    def more(cls, _cell: Cell, _results: Sequence[Any]) -> Mapping[str, Any]:
        """Give what it holds beside the declared figures, of the results that those are of."""
        return {}

    def limits_by(self, results: Sequence[Any]) -> Sequence[str]:
        """Say what limits its figures, by the results that they are of."""
        return self.catalogue.limits(results)

    @property
    def catalogue(self) -> Catalogue:
        """What its study declares."""
        catalogue = study_of(self.probe).catalogue
        assert catalogue is not None  # noqa: S101 - else its cells were others
        return catalogue

    @property
    def declared(self) -> ProbeFigures:
        """What is declared of its probe."""
        return self.catalogue.probes[self.probe]

    def figure(self, name: str) -> FigureOfRepetitions:
        """Give a figure of which the median is told; one without repetitions where this cell has none."""
        return next((one for one in self.figures if one.name == name), FigureOfRepetitions.of(name, []))

    def count(self, name: str) -> int | None:
        """Give a figure that is added up; None where this cell has none."""
        found: int | None = getattr(self, name, None)
        return found

    @property
    def lines(self) -> list[str]:
        """Each figure with its interval, then what was counted."""
        declared = self.declared
        told = [one.line(declared.label(one.name), declared.in_words) for one in self.figures]
        counted = ", ".join(f"{name.replace('_', ' ')} {self.count(name)}" for name in declared.names("sum"))
        return [*told, *([counted] if counted else [])]

    @property
    def intervals(self) -> Mapping[str, Interval]:
        return {
            one.name: Interval(one.value, one.low, one.high)
            for one in self.figures
            if one.value is not None and one.low is not None and one.high is not None
        }

    @property
    def columns(self) -> dict[str, JsonValue]:
        """The median or the sum of each figure of the study; those of other probes are empty."""
        medians: dict[str, JsonValue] = {name: self.figure(name).p50 for name in self.catalogue.names("median")}
        counted: dict[str, JsonValue] = {name: self.count(name) for name in self.catalogue.names("sum")}
        return {**medians, **counted, "repetitions": self.repetitions}


class CountedCell(CatalogueCell):
    """A cell that holds all that was added up in one place."""

    counts: dict[str, int]
    """By name, as the probe has them."""

    @classmethod
    def fields_of_counts(cls, counts: Mapping[str, int]) -> dict[str, Any]:
        """Give that place."""
        return {"counts": dict(counts)}

    def count(self, name: str) -> int | None:
        """Give a figure that is added up; None where this cell has none."""
        return self.counts.get(name)


def summarize_cell(
    study: str,
    catalogue: Catalogue,
    model: type[CatalogueCell],
    trials: Sequence[Trial],
    *,
    measure: Callable[[Trial], Any] | None = None,
) -> CatalogueCell:
    """Compute the figures of a cell.

    Args:
        study: Its name.
        catalogue: What it declares.
        model: Of the cell.
        trials: All of the cell, at least one.
        measure: Gives what the figures are taken from, of a valid trial, by its tables; None takes its result.
    """
    cell = trials[0].record.cell
    declared = catalogue.probes[cell.probe]
    results: list[Any]
    if measure is None:
        results = [trial.result(declared.model) for trial in used_trials(trials)]
    else:
        # Tables of a trial that may not be used are not read: they may be what is wrong with it.
        invalid = reasons_of([trial.record for trial in trials])
        results = [measure(trial) for trial, reasons in zip(trials, invalid, strict=True) if not reasons]
    values = {name: [declared.value(name, one) for one in results] for name in declared.figures}
    counts = {name: sum(int(one) for one in values[name] if one is not None) for name in declared.names("sum")}
    found = [FigureOfRepetitions.of(name, values[name]) for name in declared.names("median")]
    common = cell_figures([trial.record for trial in trials])
    made = model(
        **common,
        study=study,
        repetitions=len(results),
        figures=[one for one in found if one.of_repetitions],
        **model.fields_of_counts(counts),
        **model.more(cell, results),
    )
    return made.model_copy(update={"limits": [*made.limits, *made.limits_by(results)]})
