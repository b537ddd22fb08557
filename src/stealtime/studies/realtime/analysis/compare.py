"""A cell of two runs: whether jobs began later, took longer, or missed more deadlines."""

from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import Literal

from stealtime.report import notation
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.interval import REPETITIONS_MIN, ratio_of_repetitions
from stealtime.report.rates import Counts, judge_rates, method_of_rates
from stealtime.studies.realtime.analysis.model import RealTimeCell, Repetition, Tail


class TailComparison(StatisticComparison):
    """A statistic that each repetition has one value of."""

    a: float | None
    """The geometric mean of the repetitions, in ns or as a share of the deadline, as the name says."""
    b: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its value in each run."""
        is_time = self.statistic.endswith("_ns")
        values = (
            notation.ABSENT if one is None else notation.duration(one) if is_time else notation.percent(one)
            for one in (self.a, self.b)
        )
        a, b = values
        return self.statistic.removesuffix("_ns").replace("_", " "), a, b


class MissedComparison(StatisticComparison):
    """The share of jobs that missed their deadline."""

    a_share: float | None
    b_share: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its value in each run."""
        a, b = (notation.ABSENT if one is None else notation.percent(one) for one in (self.a_share, self.b_share))
        return "missed deadlines", a, b


def compare_cells(a: RealTimeCell, b: RealTimeCell) -> CellComparison:
    """Compare a cell that two runs have in common; ratios are of ``b`` to ``a``."""
    because = _why_not(a, b)
    statistics: list[StatisticComparison] = [
        _tail("urgent_latency_p50_ns", a, b, because, lambda one: _of(one.urgent_latency_ns, "p50")),
        _tail("urgent_latency_p99_ns", a, b, because, lambda one: _of(one.urgent_latency_ns, "p99")),
        _tail("response_max_of_deadline", a, b, because, lambda one: _of(one.response_share, "max")),
        _missed(a, b, because),
    ]
    return CellComparison.of(a, (len(a.repetitions), len(b.repetitions)), statistics)


def _of(tail: Tail | None, key: Literal["p50", "p99", "max"]) -> float | None:
    if tail is None:
        return None
    return {"p50": tail.p50, "p99": tail.p99, "max": tail.max}[key]


def _why_not(a: RealTimeCell, b: RealTimeCell) -> str | None:
    fewest = min(len(a.repetitions), len(b.repetitions))
    if fewest < REPETITIONS_MIN:
        return f"one run has {fewest} valid repetitions: measure with --repetitions {REPETITIONS_MIN}"
    if _work(a) != _work(b):
        return "the tasks or their work differ: measure the second run with --loop-of the first"
    return None


def _work(cell: RealTimeCell) -> list[list[tuple[int, int, int]]]:
    """Give what all tasks had to do, but for a difference of calibration that is none of theirs."""
    return [[(task.period_ns, task.deadline_ns, task.iterations) for task in one.tasks] for one in cell.repetitions]


def _tail(
    statistic: str,
    a: RealTimeCell,
    b: RealTimeCell,
    because: str | None,
    of: Callable[[Repetition], float | None],
) -> TailComparison:
    sides = [_values(cell.repetitions, of) for cell in (a, b)]
    if because is None and any(len(side) < len(cell.repetitions) for side, cell in zip(sides, (a, b), strict=True)):
        # Those without one may be the worst.
        because = "not every repetition has a finished job"
    ratio = None if because else ratio_of_repetitions(*sides, same_session=False)
    means = [geometric_mean(side) if side else None for side in sides]
    return TailComparison(
        statistic=statistic,
        a=means[0],
        b=means[1],
        **judged(ratio, because, "Welch's t on logarithms of repetitions, with a variance between sessions"),
    )


def _values(repetitions: Sequence[Repetition], of: Callable[[Repetition], float | None]) -> list[float]:
    values = map(of, repetitions)
    return [value for value in values if value is not None and value > 0]


def _missed(a: RealTimeCell, b: RealTimeCell, because: str | None) -> MissedComparison:
    first, second = (
        Counts(
            [one.missed for one in cell.repetitions if one.released],
            [one.released for one in cell.repetitions if one.released],
        )
        for cell in (a, b)
    )
    ratio, method = None, None
    if because is None and not (first.events and second.events):
        because = "in one run no job was released"
    if because is None:
        ratio, because = judge_rates(first, second)
        method = method_of_rates(first, second, "missed deadlines")
    shares = [None if cell.missed_share is None else cell.missed_share.share for cell in (a, b)]
    return MissedComparison(
        statistic="missed_share", a_share=shares[0], b_share=shares[1], **judged(ratio, because, method)
    )
