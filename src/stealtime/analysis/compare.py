"""Two runs, cell by cell: which statistics differ, by what ratio, and how sure that is.

Each statistic is judged on its own with 95 % confidence: of twenty comparisons between equal machines, one is expected
to be called different.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stealtime.analysis.interval import (
    BEYOND_MIN,
    CONFIDENCE,
    Interval,
    quantile_interval,
    ratio_between_trials,
    ratio_of_intervals,
)
from stealtime.analysis.model import CellSummary, Figures, RunSummary, TrialSummary
from stealtime.analysis.series import load_durations
from stealtime.analysis.summary import summarize
from stealtime.store.run import Run

TRIALS_MIN = 3
"""Repetitions on both sides from which on the trials, not the samples, are what is compared."""
SPAN_LIMIT = 1.1
"""A maximum grows with the number of samples: trials may differ in it by this factor at most."""
_TAILS = {"p50_ns": 2, "p90_ns": 10, "p99_ns": 100, "p999_ns": 1_000, "p9999_ns": 10_000, "p99999_ns": 100_000}
STATISTICS = (*_TAILS, "max_ns")

Verdict = Literal["higher", "lower", "no difference shown", "not judged"]


class StatisticComparison(Figures):
    """One statistic of one cell in both runs."""

    statistic: str
    a_ns: float | None
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
    if min(len(trials_a), len(trials_b)) >= TRIALS_MIN:
        statistics = [_between_trials(name, trials_a, trials_b) for name in STATISTICS]
    elif trials_a and trials_b:
        statistics = _within_trials(trials_a, trials_b)
    else:
        side = "first" if not trials_a else "second"
        because = f"the {side} run has no valid trial of this cell"
        statistics = [_not_judged(name, trials_a, trials_b, because) for name in STATISTICS]
    return CellComparison(
        platform=a.platform,
        scenario=a.scenario,
        probe=a.probe,
        parameters=dict(a.parameters),
        traced=a.traced,
        a_trials=len(trials_a),
        b_trials=len(trials_b),
        statistics=statistics,
    )


def _usable(cell: CellSummary) -> list[TrialSummary]:
    return [trial for trial in cell.trials if trial.valid and trial.stats is not None]


def _values(trials: Sequence[TrialSummary], name: str) -> list[float]:
    return [float(getattr(trial.stats, name)) for trial in trials]


def _between_trials(name: str, a: Sequence[TrialSummary], b: Sequence[TrialSummary]) -> StatisticComparison:
    if any(trial.stats is not None and name in trial.stats.unresolved for trial in (*a, *b)):
        return _not_judged(name, a, b, "a trial has too few samples to resolve it")
    counts = [trial.stats.count for trial in (*a, *b) if trial.stats is not None]
    if name == "max_ns" and max(counts) > SPAN_LIMIT * min(counts):
        because = f"trials have from {min(counts)} to {max(counts)} samples, and a maximum grows with their number"
        return _not_judged(name, a, b, because)
    first, second = _values(a, name), _values(b, name)
    if min(first + second) <= 0.0:
        return _not_judged(name, a, b, "it is 0 in a trial, and a ratio needs positive values")
    ratio = ratio_between_trials(first, second)
    method = f"Welch t interval on the logarithms of {len(a)} and {len(b)} trials"
    return _judged(name, float(np.exp(np.log(first).mean())), ratio, method)


def _within_trials(a: Sequence[TrialSummary], b: Sequence[TrialSummary]) -> list[StatisticComparison]:
    samples_a, samples_b = _load(a), _load(b)
    few = min(_count(samples_a), _count(samples_b))
    method = (
        f"rank interval with the variance between stretches of {len(a)} and {len(b)} trials;"
        " what differs from trial to trial is not seen"
    )
    results = []
    for name, tail in _TAILS.items():
        if few < BEYOND_MIN * tail:
            because = f"only {few // tail} samples of a run lie beyond it, {BEYOND_MIN} are needed"
            results.append(_not_judged(name, a, b, because))
            continue
        first, second = _quantile_ns(samples_a, tail), _quantile_ns(samples_b, tail)
        if min(first.low, second.low) <= 0.0:
            results.append(_not_judged(name, a, b, "its interval holds 0, and a ratio needs positive values"))
        else:
            results.append(_judged(name, first.value, ratio_of_intervals(first, second), method))
    because = f"one maximum a trial says nothing of its spread: {TRIALS_MIN} repetitions on both sides are needed"
    results.append(_not_judged("max_ns", a, b, because))
    return results


_Samples = list[tuple[NDArray[np.uint32], float]]
"""Of each trial: the durations, and ns a unit."""


def _load(trials: Sequence[TrialSummary]) -> _Samples:
    return [load_durations(trial.folder) for trial in trials]


def _count(samples: _Samples) -> int:
    return sum(len(durations) for durations, _ in samples)


def _quantile_ns(samples: _Samples, tail: int) -> Interval:
    units = quantile_interval([durations for durations, _ in samples], tail)
    ns_a_unit = samples[0][1]
    return Interval(units.value * ns_a_unit, units.low * ns_a_unit, units.high * ns_a_unit)


def _judged(name: str, a_ns: float, ratio: Interval, method: str) -> StatisticComparison:
    verdict: Verdict = "no difference shown"
    if ratio.low > 1.0:
        verdict = "higher"
    elif ratio.high < 1.0:
        verdict = "lower"
    return StatisticComparison(
        statistic=name,
        a_ns=a_ns,
        b_ns=a_ns * ratio.value,
        ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        verdict=verdict,
        method=method,
        because=None,
    )


def _not_judged(name: str, a: Sequence[TrialSummary], b: Sequence[TrialSummary], because: str) -> StatisticComparison:
    return StatisticComparison(
        statistic=name,
        a_ns=_values(a, name)[0] if len(a) == 1 else None,
        b_ns=_values(b, name)[0] if len(b) == 1 else None,
        ratio=None,
        ratio_low=None,
        ratio_high=None,
        verdict="not judged",
        method=None,
        because=because,
    )
