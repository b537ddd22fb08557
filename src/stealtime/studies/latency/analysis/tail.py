"""What is steady of a cell: its overhead at the 99.9th percentile, with an interval over its repetitions.

A maximum is one event, and grows with the number of samples. Of a thousand samples one is longer than the 99.9th
percentile: in a second of ``tick`` with a loop of 68 us there are some fifteen, of ``wakeup`` at 1 ms a single one. The
interval says how far repetitions differ.
"""

from stealtime.report.interval import (
    REPETITIONS_MIN,
    Interval,
    interval_of_repetitions,
    ratio_of_repetitions,
)
from stealtime.studies.latency.analysis.clock_resolution import clock_resolution_ns
from stealtime.studies.latency.analysis.model import CellSummary, TrialSummary


def tail_overhead(cell: CellSummary) -> Interval | None:
    """Give how far the 99.9th percentile of one repetition lies above the floor, in ns.

    Returns:
        The geometric mean of the repetitions, with an interval that is to hold in another session; None with fewer than
        ``REPETITIONS_MIN``, and where a repetition has none (see ``tail_overhead_ns``).
    """
    values_ns = _of_trials(cell)
    if len(values_ns) < REPETITIONS_MIN:
        return None
    return interval_of_repetitions(values_ns, resolution=clock_resolution_ns(cell))


def intervals_of(cell: CellSummary) -> dict[str, Interval]:
    """Give the figures that have an interval; see ``report.study.ReportedStudy.intervals``."""
    tail = tail_overhead(cell)
    return {} if tail is None else {"p999_overhead_ns": tail}


def tail_ratio(cell: CellSummary, reference: CellSummary) -> Interval | None:
    """Give how many times the reference's a cell's overhead at the 99.9th percentile is; None as above, for either."""
    own_ns, base_ns = _of_trials(cell), _of_trials(reference)
    if min(len(own_ns), len(base_ns)) < REPETITIONS_MIN:
        return None
    resolution_ns = clock_resolution_ns(cell, reference)
    return ratio_of_repetitions(base_ns, own_ns, same_session=True, resolution=resolution_ns)


def why_no_interval(cell: CellSummary) -> str | None:
    """Say why ``tail_overhead`` gives a cell no interval; None where it gives one, and of a cell that is not valid."""
    if not cell.valid:
        return None
    trials = [trial for trial in cell.trials if trial.valid]
    if len(trials) < REPETITIONS_MIN:
        words = "1 valid repetition" if len(trials) == 1 else f"{len(trials)} valid repetitions"
        return f"a cell has {words}: --repetitions {REPETITIONS_MIN} or more"
    reasons = (reason for trial in trials if (reason := _why_not_counted(trial)) is not None)
    return next(reasons, None)


def _why_not_counted(trial: TrialSummary) -> str | None:
    if trial.stats is None or "p999_ns" in trial.stats.unresolved:
        return "a repetition has too few samples for its 99.9th percentile: measure longer"
    overhead_ns = trial.tail_overhead_ns
    if overhead_ns is None:
        cause = trial.held_back.cause if trial.held_back is not None else "a limit of the kernel"
        return f"the 99.9th percentile of a repetition may be a pause of {cause}"
    return "the 99.9th percentile of a repetition is its floor, and a ratio needs more" if overhead_ns <= 0.0 else None


def _of_trials(cell: CellSummary) -> list[float]:
    if not cell.valid:
        return []
    values_ns = [trial.tail_overhead_ns for trial in cell.trials if trial.valid]
    positive = [value for value in values_ns if value is not None and value > 0.0]
    return positive if len(positive) == len(values_ns) else []
