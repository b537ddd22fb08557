"""A figure that each repetition of a cell has one value of: its median and interval, in words, and in two runs."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Self

from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import CellFigures
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.interval import (
    REPETITIONS_MIN,
    Interval,
    interval_of_repetitions,
    method_of_ratio,
    ratio_of_repetitions,
)

InWords = Callable[[str, float | None], str]
"""Writes the value of a figure, by its name, which tells the unit."""


class FigureOfRepetitions(Figures):
    """One figure of a cell, with its unit in the name."""

    name: str
    of_repetitions: list[float]
    p50: float | None
    """The median of the repetitions."""
    largest: float | None
    value: float | None
    """Their geometric mean, with its 95 % interval in another session; None where that is not judged."""
    low: float | None
    high: float | None
    because: str | None
    """Why it is not judged."""

    @classmethod
    def of(cls, name: str, values: Sequence[float | None]) -> Self:
        """Judge the values of the repetitions; there may be none.

        Args:
            name: Of the figure.
            values: One a repetition; None where it has none, and then nothing is judged: that repetition may be the
                worst.
        """
        numbers = [one for one in values if one is not None]
        because = _why_not_judged(numbers)
        if numbers and len(numbers) < len(values):
            because = f"{len(values) - len(numbers)} of {len(values)} repetitions have none"
        interval = interval_of_repetitions(numbers) if because is None else None
        return cls(
            name=name,
            of_repetitions=numbers,
            p50=median(numbers) if numbers else None,
            largest=max(numbers, default=None),
            value=None if interval is None else interval.value,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            because=because,
        )

    def line(self, label: str, in_words: InWords) -> str:
        """Write the median with its interval."""
        return f"{label} {in_words(self.name, self.p50)} ({self.interval_words(in_words)})"

    def interval_words(self, in_words: InWords) -> str:
        """Write the interval, or why there is none."""
        if self.low is None or self.high is None:
            return f"not judged, because {self.because}"
        return f"{in_words(self.name, self.low)} to {in_words(self.name, self.high)}"


class ComparisonOfRepetitions(StatisticComparison):
    """Such a figure in two runs; the study adds its words."""

    a_p50: float | None
    b_p50: float | None

    @classmethod
    def of(cls, a: FigureOfRepetitions, b: FigureOfRepetitions, because: str | None = None) -> Self:
        """Compare a figure of a cell that two runs have; or say why nothing of the cell is judged."""
        ratio = None
        if because is None:
            ratio, because = ratio_to(a, b, same_session=False)
        method = method_of_ratio(len(a.of_repetitions), len(b.of_repetitions))
        return cls(statistic=a.name, a_p50=a.p50, b_p50=b.p50, **judged(ratio, because, method))


def compared_repetitions(
    comparison: type[ComparisonOfRepetitions],
    cells: tuple[CellFigures, CellFigures],
    both: Sequence[tuple[FigureOfRepetitions, FigureOfRepetitions]],
) -> CellComparison:
    """Compare a cell that two runs have, by its valid repetitions; where one has none, nothing is judged.

    Args:
        comparison: What becomes of a figure.
        cells: In a and in b.
        both: The figures that both have, each in a and in b.
    """
    valid = [sum(trial.valid for trial in cell.trials) for cell in cells]
    because = None if all(valid) else "a run has no valid repetition"
    return CellComparison.of(cells[0], (valid[0], valid[1]), [comparison.of(a, b, because) for a, b in both])


def ratio_to(
    base: FigureOfRepetitions, other: FigureOfRepetitions, *, same_session: bool
) -> tuple[Interval | None, str | None]:
    """Give how many times ``base`` another figure is, or why that is not judged."""
    because = base.because or other.because
    if because is not None:
        return None, because
    return ratio_of_repetitions(base.of_repetitions, other.of_repetitions, same_session=same_session), None


def rows_of_figures(
    title: str, figures: Sequence[FigureOfRepetitions], counts: Sequence[str], in_words: InWords
) -> list[tuple[str, ...]]:
    """Give the row of a cell in a table: medians, then counts; below it a row of intervals, if one is judged."""
    rows = [(title, *(in_words(one.name, one.p50) for one in figures), *counts)]
    if any(one.low is not None for one in figures):
        intervals = (one.interval_words(in_words) if one.low is not None else "" for one in figures)
        rows.append(("", *intervals, *("" for _ in counts)))
    return rows


def _why_not_judged(numbers: Sequence[float]) -> str | None:
    if len(numbers) < REPETITIONS_MIN:
        return f"there are fewer than {REPETITIONS_MIN} repetitions ({len(numbers)})"
    return "it is 0 in a repetition" if min(numbers) <= 0.0 else None
