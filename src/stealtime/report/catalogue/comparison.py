"""Figures of repetitions in two runs: the same method, and the same words of it, for every study that has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.model import Figure
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.interval import REPETITIONS_MIN, method_of_ratio
from stealtime.report.repetitions import FigureOfRepetitions, ratio_to


class FigureComparison(StatisticComparison):
    """A figure that each repetition has one value of, in two runs."""

    a_p50: float | None
    """The median of the repetitions."""
    b_p50: float | None
    told: SkipJsonSchema[tuple[str, str, str]] = Field(exclude=True, repr=False)
    """Its label, and the medians with their unit."""

    @property
    def words(self) -> tuple[str, str, str]:
        return self.told


def compare_cells(a: CatalogueCell, b: CatalogueCell) -> CellComparison:
    """Compare each figure of a cell that two runs have, by its valid repetitions."""
    valid = [sum(trial.valid for trial in cell.trials) for cell in (a, b)]
    both = [(one, other) for one in a.figures if (other := b.figure(one.name)).of_repetitions]
    statistics = _compared(a.declared.figures, both, too_few(*valid))
    return CellComparison.of(a, (valid[0], valid[1]), statistics)


def compare_repetitions(
    figures: Mapping[str, Figure], a: Sequence[Any], b: Sequence[Any], because: str | None = None
) -> list[FigureComparison]:
    """Compare figures of a cell that two runs have, each taken from what its study has of a repetition.

    Args:
        figures: By name.
        a: The valid repetitions in a.
        b: Those in b.
        because: Why nothing of the cell is judged; None where it is.
    """
    first, second = ([_taken(name, figure, side) for name, figure in figures.items()] for side in (a, b))
    return _compared(figures, zip(first, second, strict=True), too_few(len(a), len(b)) or because)


def too_few(a: int, b: int) -> str | None:
    """Say that a run has too few valid repetitions for a comparison; None where both have enough."""
    if (fewest := min(a, b)) >= REPETITIONS_MIN:
        return None
    return f"one run has {fewest} valid repetitions: measure with --repetitions {REPETITIONS_MIN}"


def _taken(name: str, figure: Figure, repetitions: Sequence[Any]) -> FigureOfRepetitions:
    return FigureOfRepetitions.of(name, [figure.value(name, one) for one in repetitions])


def _compared(
    figures: Mapping[str, Figure],
    both: Iterable[tuple[FigureOfRepetitions, FigureOfRepetitions]],
    because: str | None,
) -> list[FigureComparison]:
    return [_figure(figures[a.name], a, b, because) for a, b in both]


def _figure(figure: Figure, a: FigureOfRepetitions, b: FigureOfRepetitions, because: str | None) -> FigureComparison:
    ratio, why_not = (None, because) if because is not None else ratio_to(a, b, same_session=False)
    method = method_of_ratio(len(a.of_repetitions), len(b.of_repetitions))
    return FigureComparison(
        statistic=a.name,
        a_p50=a.p50,
        b_p50=b.p50,
        told=(figure.label, figure.in_words(a.name, a.p50), figure.in_words(b.name, b.p50)),
        **judged(ratio, why_not, method),
    )
