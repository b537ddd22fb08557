"""Two runs, cell by cell: which statistics differ, by what ratio, and how sure that is.

Each statistic is judged on its own with 95 % confidence: of twenty comparisons between equal machines, one is expected
to be called different, and the comparison says how many that makes. Where no difference is shown, the interval says how
large one may be all the same: what was not seen is no proof that nothing is there.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Literal, Self, TypedDict

from pydantic import Field, SerializeAsAny

from stealtime.report import notation
from stealtime.report.cells.figures import Figures, NamedCell
from stealtime.report.cells.model import CellFigures
from stealtime.report.circumstances.differences import Difference
from stealtime.report.interval import Interval

Verdict = Literal["higher", "lower", "no difference shown", "not judged"]


class StatisticComparison(Figures):
    """One statistic of one cell in both runs; the study adds the values, with their unit in the key."""

    statistic: str
    ratio: float | None
    """Of b to a; None where it was not judged, or a has nothing."""
    ratio_low: float | None
    ratio_high: float | None
    """None also where there is no limit, as a has nothing."""
    verdict: Verdict
    """What b is, against a; ``no difference shown`` where the interval holds 1."""
    less_than: float | None = None
    """Where no difference is shown: a larger factor, either way, is outside the interval; None elsewhere."""
    method: str | None
    """How the interval was found."""
    because: str | None
    """Why it was not judged."""

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its value in each run."""
        raise NotImplementedError

    @property
    def verdict_words(self) -> str:
        """The verdict, with what a missing difference cannot be."""
        if self.less_than is None:
            return self.verdict
        return f"{self.verdict} (less than {notation.factor_from_above(self.less_than)})"


class Judged(TypedDict):
    """What a ratio gives to the comparison of a statistic."""

    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    verdict: Verdict
    less_than: float | None
    method: str | None
    because: str | None


def judged(ratio: Interval | None, because: str | None, method: str | None = None) -> Judged:
    """Say what one run is against the other, by the interval of the ratio.

    Args:
        ratio: None where it is not judged.
        because: Why it is not judged.
        method: How the interval was found.
    """
    if ratio is None:
        return Judged(
            ratio=None,
            ratio_low=None,
            ratio_high=None,
            verdict="not judged",
            less_than=None,
            method=None,
            because=because,
        )
    verdict: Verdict = "higher" if ratio.low > 1.0 else "lower" if ratio.high < 1.0 else "no difference shown"
    is_bounded = verdict == "no difference shown" and ratio.low > 0.0 and isfinite(ratio.high)
    return Judged(
        ratio=ratio.value if isfinite(ratio.value) else None,
        ratio_low=ratio.low,
        ratio_high=ratio.high if isfinite(ratio.high) else None,
        verdict=verdict,
        less_than=max(ratio.high, 1.0 / ratio.low) if is_bounded else None,
        method=method,
        because=because,
    )


class CellComparison(NamedCell):
    """A cell that both runs have."""

    traced: bool
    a_trials: int
    """Valid repetitions."""
    b_trials: int
    statistics: list[SerializeAsAny[StatisticComparison]]

    @classmethod
    def of(cls, cell: CellFigures, trials: tuple[int, int], statistics: Sequence[StatisticComparison]) -> Self:
        """Compare a cell.

        Args:
            cell: In either run.
            trials: Valid repetitions in a and in b.
            statistics: Compared.
        """
        return cls(
            **NamedCell.naming(cell),
            traced=cell.traced,
            a_trials=trials[0],
            b_trials=trials[1],
            statistics=list(statistics),
        )


class Comparison(Figures):
    """Two runs."""

    schema_version: Literal[2] = 2
    """Before 2, figures of ``contend`` and ``rtload`` had other keys than those of other studies."""
    a: str
    """The run that is the base of the ratios."""
    b: str
    confidence: float
    differences: list[Difference]
    """The circumstances that are not the same in both; where figures without their runs are compared, only who else
    had their CPUs."""
    cells: list[CellComparison]
    only_in_a: list[str]
    only_in_b: list[str]
    not_alone: list[str] = Field(default_factory=list)
    """Cells beside which others ran that nobody asked for, in which run and who: a difference may be theirs."""

    @property
    def judged(self) -> list[StatisticComparison]:
        return [one for cell in self.cells for one in cell.statistics if one.verdict != "not judged"]

    @property
    def different(self) -> list[StatisticComparison]:
        """Those that are called higher or lower."""
        return [one for one in self.judged if one.verdict != "no difference shown"]

    @property
    def different_by_chance(self) -> float:
        """How many would be called different at most, on average, if both runs were of one machine."""
        return (1.0 - self.confidence) * len(self.judged)

    @property
    def is_judged(self) -> bool:
        """Whether at least one statistic of each common cell was judged."""
        return bool(self.cells) and all(
            any(statistic.verdict != "not judged" for statistic in cell.statistics) for cell in self.cells
        )
