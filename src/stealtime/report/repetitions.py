"""A figure that each repetition of a cell has one value of: its median and interval."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Self

from stealtime.report.cells.figures import Figures
from stealtime.report.interval import (
    REPETITIONS_MIN,
    Interval,
    interval_of_repetitions,
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
        return f"{label} {in_words(self.name, self.p50)} ({self.interval_words(in_words)})"

    def interval_words(self, in_words: InWords) -> str:
        """Write the interval, or why there is none."""
        if self.low is None or self.high is None:
            return f"not judged, because {self.because}"
        return f"{in_words(self.name, self.low)} to {in_words(self.name, self.high)}"


def ratio_to(
    base: FigureOfRepetitions, other: FigureOfRepetitions, *, same_session: bool
) -> tuple[Interval | None, str | None]:
    """Give how many times ``base`` another figure is, or why that is not judged."""
    because = base.because or other.because
    if because is not None:
        return None, because
    return ratio_of_repetitions(base.of_repetitions, other.of_repetitions, same_session=same_session), None


def _why_not_judged(numbers: Sequence[float]) -> str | None:
    if len(numbers) < REPETITIONS_MIN:
        return f"there are fewer than {REPETITIONS_MIN} repetitions ({len(numbers)})"
    return "it is 0 in a repetition" if min(numbers) <= 0.0 else None
