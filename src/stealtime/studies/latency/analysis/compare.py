"""A cell of two runs: which statistics differ, by what ratio, and how sure that is.

What is compared are repetitions, each from a boot of its own: samples within a trial say nothing of the next trial.
"""

from collections.abc import Sequence

import numpy as np

from stealtime.report import notation
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.interval import (
    METHOD_BY_RANKS,
    REPETITIONS_MIN,
    method_of_ratio,
    ratio_by_ranks,
    ratio_of_repetitions,
)
from stealtime.studies.latency.analysis.clock_resolution import clock_resolution_ns
from stealtime.studies.latency.analysis.compare_stalls import Side, compare_stalls
from stealtime.studies.latency.analysis.model import CellSummary, TrialSummary

BEYOND_MIN = 10
"""With fewer samples beyond it in a trial, a percentile grows with their number, as a maximum does."""
SPAN_LIMIT = 1.1
"""By this factor at most may trials differ in their samples for such a statistic to be compared."""
FLOOR = "floor_ns"
_TAILS = {"p50_ns": 2, "p90_ns": 10, "p99_ns": 100, "p999_ns": 1_000, "p9999_ns": 10_000, "p99999_ns": 100_000}
NAMES = {
    FLOOR: "floor",
    "p50_ns": "p50",
    "p90_ns": "p90",
    "p99_ns": "p99",
    "p999_ns": "p99.9",
    "p9999_ns": "p99.99",
    "p99999_ns": "p99.999",
    "max_ns": "max",
}
STATISTICS = tuple(NAMES)


class LatencyComparison(StatisticComparison):
    """A statistic of durations."""

    a_ns: float | None
    """The geometric mean of the repetitions; None if one is 0, or there is none."""
    b_ns: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        return NAMES[self.statistic], notation.duration(self.a_ns), notation.duration(self.b_ns)


def compare_cells(a: CellSummary, b: CellSummary) -> CellComparison:
    """Compare all statistics of a cell that two runs have in common; ratios are of ``b`` to ``a``."""
    trials_a, trials_b = _usable(a), _usable(b)
    because = _why_not_comparable(trials_a, trials_b)
    resolution_ns = clock_resolution_ns(a, b)
    statistics: list[StatisticComparison] = [
        _not_judged(name, trials_a, trials_b, because)
        if because is not None
        else _compare_statistic(name, trials_a, trials_b, resolution_ns)
        for name in STATISTICS
    ]
    # The floor, then what lies over it, then the distribution.
    statistics[1:1] = compare_stalls(_side(a, trials_a), _side(b, trials_b), because)
    return CellComparison.of(a, (len(trials_a), len(trials_b)), statistics)


def _side(cell: CellSummary, trials: Sequence[TrialSummary]) -> Side:
    """Give what the trials lost, with the time for which each was watched."""
    told = [(one.stats, one.stalls) for one in trials if one.stats is not None and one.stalls is not None]
    return Side(
        stalls=[stalls for _, stalls in told],
        samples=[stats.count for stats, _ in told],
        watched_s=[stats.count * cell.period_ns(stats) / 1e9 for stats, _ in told],
    )


def _usable(cell: CellSummary) -> list[TrialSummary]:
    return [trial for trial in cell.trials if trial.valid and trial.stats is not None]


def _why_not_comparable(a: Sequence[TrialSummary], b: Sequence[TrialSummary]) -> str | None:
    if min(len(a), len(b)) < REPETITIONS_MIN:
        return (
            f"the runs have {len(a)} and {len(b)} valid repetitions, and with fewer than {REPETITIONS_MIN} it cannot "
            f"be told by how much equal ones differ: measure with --repetitions {REPETITIONS_MIN}"
        )
    loops = [sorted({trial.loop_iterations for trial in side if trial.loop_iterations is not None}) for side in (a, b)]
    if loops[0] != loops[1]:
        first, second = (" and ".join(str(one) for one in side) or "unknown" for side in loops)
        return (
            f"the loops did different work, {first} and {second} iterations: measure the second run with --loop-of and "
            "the name of the first"
        )
    return None


def _compare_statistic(
    name: str, a: Sequence[TrialSummary], b: Sequence[TrialSummary], resolution_ns: float
) -> LatencyComparison:
    stats = [trial.stats for trial in (*a, *b) if trial.stats is not None]
    if any(name in one.unresolved for one in stats):
        return _not_judged(name, a, b, "a trial has too few samples to resolve it")
    fewest, most = min(one.count for one in stats), max(one.count for one in stats)
    if most > SPAN_LIMIT * fewest and (name == "max_ns" or fewest < BEYOND_MIN * _TAILS.get(name, 0)):
        because = f"trials have from {fewest} to {most} samples, and it grows with their number"
        return _not_judged(name, a, b, because)
    first, second = _values(a, name), _values(b, name)
    if len(first) < len(a) or len(second) < len(b):
        return _not_judged(name, a, b, "it may be a pause that the kernel's limit on real-time threads makes")
    if min(first + second) <= 0.0:
        return _not_judged(name, a, b, "it is 0 in a trial, and a ratio needs positive values")
    if name == FLOOR:
        # A minimum has outliers on one side: a trial that was never left alone.
        ratio, method = ratio_by_ranks(first, second, resolution=resolution_ns), METHOD_BY_RANKS
    else:
        ratio = ratio_of_repetitions(first, second, same_session=False, resolution=resolution_ns)
        method = method_of_ratio(len(a), len(b))
    return LatencyComparison(
        statistic=name,
        a_ns=_typical(first),
        b_ns=_typical(second),
        **judged(ratio, None, method),
    )


def _values(trials: Sequence[TrialSummary], name: str) -> list[float]:
    """Give a statistic of each trial that has it, if it is not that of a limit's pause."""
    values = [trial.comparable_worst_ns if name == "max_ns" else trial.percentile_ns(name) for trial in trials]
    return [value for value in values if value is not None]


def _typical(values: Sequence[float]) -> float | None:
    return float(np.exp(np.log(values).mean())) if values and min(values) > 0.0 else None


def _not_judged(name: str, a: Sequence[TrialSummary], b: Sequence[TrialSummary], because: str) -> LatencyComparison:
    return LatencyComparison(
        statistic=name,
        a_ns=_typical(_values(a, name)),
        b_ns=_typical(_values(b, name)),
        **judged(None, because),
    )
