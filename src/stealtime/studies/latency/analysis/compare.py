"""Two runs, cell by cell: which statistics differ, by what ratio, and how sure that is.

What is compared are repetitions, each from a boot of its own: samples within a trial say nothing of the next trial.
Each statistic is judged on its own with 95 % confidence: of twenty comparisons between equal machines, one is expected
to be called different, and the comparison says how many that makes.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from stealtime.store.run import Run
from stealtime.studies.latency.analysis.clock_resolution import clock_resolution_ns
from stealtime.studies.latency.analysis.interval import CONFIDENCE, REPETITIONS_MIN, SESSION_SHARE, ratio_of_repetitions
from stealtime.studies.latency.analysis.model import CellSummary, Figures, RunSummary, TrialSummary
from stealtime.studies.latency.analysis.summary import summarize

BEYOND_MIN = 10
"""With fewer samples beyond it in a trial, a percentile grows with their number, as a maximum does."""
SPAN_LIMIT = 1.1
"""By this factor at most may trials differ in their samples for such a statistic to be compared."""
_TAILS = {"p50_ns": 2, "p90_ns": 10, "p99_ns": 100, "p999_ns": 1_000, "p9999_ns": 10_000, "p99999_ns": 100_000}
STATISTICS = (*_TAILS, "max_ns")

Verdict = Literal["higher", "lower", "no difference shown", "not judged"]


class StatisticComparison(Figures):
    """One statistic of one cell in both runs."""

    statistic: str
    a_ns: float | None
    """The geometric mean of the repetitions; None if one is 0, or there is none."""
    b_ns: float | None
    ratio: float | None
    """Of b to a; None where it was not judged."""
    ratio_low: float | None
    ratio_high: float | None
    verdict: Verdict
    """What b is, against a; ``no difference shown`` where the interval holds 1."""
    method: str | None
    """How the interval was found."""
    because: str | None
    """Why it was not judged."""


class CellComparison(Figures):
    """A cell that both runs have."""

    platform: str
    scenario: str
    probe: str
    parameters: dict[str, object]
    traced: bool
    a_trials: int
    """Valid repetitions."""
    b_trials: int
    statistics: list[StatisticComparison]


class Comparison(Figures):
    """Two runs."""

    schema_version: Literal[1] = 1
    a: str
    """The run that is the base of the ratios."""
    b: str
    confidence: float
    cells: list[CellComparison]
    only_in_a: list[str]
    only_in_b: list[str]

    @property
    def judged(self) -> list[StatisticComparison]:
        """All statistics that have a verdict."""
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


def compare(a: Run | RunSummary, b: Run | RunSummary) -> Comparison:
    """Compare all cells that two runs have in common; ratios are of ``b`` to ``a``.

    Raises:
        StealtimeError: A document of a run is damaged, or samples that were there are gone.
    """
    first = a if isinstance(a, RunSummary) else summarize(a)
    second = b if isinstance(b, RunSummary) else summarize(b)
    cells_a = {cell.key: cell for cell in first.cells}
    cells_b = {cell.key: cell for cell in second.cells}
    return Comparison(
        a=first.run_id,
        b=second.run_id,
        confidence=CONFIDENCE,
        cells=[_compare_cells(cell, cells_b[key]) for key, cell in cells_a.items() if key in cells_b],
        only_in_a=[_name(cell) for key, cell in cells_a.items() if key not in cells_b],
        only_in_b=[_name(cell) for key, cell in cells_b.items() if key not in cells_a],
    )


def _name(cell: CellSummary) -> str:
    parameters = ", ".join(f"{name} {value}" for name, value in sorted(cell.parameters.items()))
    return f"{cell.platform} {cell.scenario} {cell.probe} ({parameters}){' traced' if cell.traced else ''}"


def _compare_cells(a: CellSummary, b: CellSummary) -> CellComparison:
    trials_a, trials_b = _usable(a), _usable(b)
    because = _why_not_comparable(trials_a, trials_b)
    resolution_ns = clock_resolution_ns(a, b)
    return CellComparison(
        platform=a.platform,
        scenario=a.scenario,
        probe=a.probe,
        parameters=dict(a.parameters),
        traced=a.traced,
        a_trials=len(trials_a),
        b_trials=len(trials_b),
        statistics=[
            _not_judged(name, trials_a, trials_b, because)
            if because is not None
            else _compare_statistic(name, trials_a, trials_b, resolution_ns)
            for name in STATISTICS
        ],
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
) -> StatisticComparison:
    stats = [trial.stats for trial in (*a, *b) if trial.stats is not None]
    if any(name in one.unresolved for one in stats):
        return _not_judged(name, a, b, "a trial has too few samples to resolve it")
    fewest, most = min(one.count for one in stats), max(one.count for one in stats)
    if most > SPAN_LIMIT * fewest and (name == "max_ns" or fewest < BEYOND_MIN * _TAILS[name]):
        because = f"trials have from {fewest} to {most} samples, and it grows with their number"
        return _not_judged(name, a, b, because)
    first, second = _values(a, name), _values(b, name)
    if len(first) < len(a) or len(second) < len(b):
        return _not_judged(name, a, b, "it may be a pause that the kernel's limit on real-time threads makes")
    if min(first + second) <= 0.0:
        return _not_judged(name, a, b, "it is 0 in a trial, and a ratio needs positive values")
    ratio = ratio_of_repetitions(first, second, same_session=False, resolution=resolution_ns)
    verdict: Verdict = "no difference shown"
    if ratio.low > 1.0:
        verdict = "higher"
    elif ratio.high < 1.0:
        verdict = "lower"
    return StatisticComparison(
        statistic=name,
        a_ns=_typical(first),
        b_ns=_typical(second),
        ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        verdict=verdict,
        method=(
            f"t interval on the logarithms of {len(a)} and {len(b)} repetitions; a variance between sessions is added, "
            f"{SESSION_SHARE:g} times that between repetitions"
        ),
        because=None,
    )


def _values(trials: Sequence[TrialSummary], name: str) -> list[float]:
    """Give a statistic of each trial that has it, if it is not that of a limit's pause."""
    values = [trial.comparable_worst_ns if name == "max_ns" else trial.percentile_ns(name) for trial in trials]
    return [value for value in values if value is not None]


def _typical(values: Sequence[float]) -> float | None:
    return float(np.exp(np.log(values).mean())) if values and min(values) > 0.0 else None


def _not_judged(name: str, a: Sequence[TrialSummary], b: Sequence[TrialSummary], because: str) -> StatisticComparison:
    return StatisticComparison(
        statistic=name,
        a_ns=_typical(_values(a, name)),
        b_ns=_typical(_values(b, name)),
        ratio=None,
        ratio_low=None,
        ratio_high=None,
        verdict="not judged",
        method=None,
        because=because,
    )
