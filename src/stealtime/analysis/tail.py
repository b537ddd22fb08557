"""What is steady of a cell: its overhead at the 99.9th percentile, with an interval over its repetitions.

A maximum is one event, and grows with the number of samples. Of a thousand samples one is longer than the 99.9th
percentile, so that a second of measuring holds some fifteen; and its interval says how far repetitions differ.
"""

from collections.abc import Sequence

from stealtime.analysis.interval import (
    REPETITIONS_MIN,
    Interval,
    interval_of_repetitions,
    ratio_of_repetitions,
)
from stealtime.analysis.model import CellSummary


def tail_overhead(cell: CellSummary) -> Interval | None:
    """Give how far the 99.9th percentile of one repetition lies above the floor, in ns.

    Returns:
        The geometric mean of the repetitions, with an interval that is to hold in another session; None with fewer than
        ``REPETITIONS_MIN``, and where a repetition has none (see ``tail_overhead_ns``).
    """
    values_ns = _of_trials(cell)
    return None if len(values_ns) < REPETITIONS_MIN else interval_of_repetitions(values_ns)


def tail_ratio(cell: CellSummary, reference: CellSummary) -> Interval | None:
    """Give how many times the reference's a cell's overhead at the 99.9th percentile is; None as above, for either."""
    own_ns, base_ns = _of_trials(cell), _of_trials(reference)
    if min(len(own_ns), len(base_ns)) < REPETITIONS_MIN:
        return None
    return ratio_of_repetitions(base_ns, own_ns, same_session=True)


def why_no_interval(cells: Sequence[CellSummary]) -> str | None:
    """Say what is missing where a cell has too few repetitions for an interval; None where each has enough."""
    fewest = min((sum(trial.valid for trial in cell.trials) for cell in cells if cell.valid), default=REPETITIONS_MIN)
    if fewest >= REPETITIONS_MIN:
        return None
    return (
        f"no interval and no ratio, as a cell has {fewest} valid repetitions: --repetitions {REPETITIONS_MIN} or more"
    )


def _of_trials(cell: CellSummary) -> list[float]:
    if not cell.valid:
        return []
    values_ns = [trial.tail_overhead_ns for trial in cell.trials if trial.valid]
    positive = [value for value in values_ns if value is not None and value > 0.0]
    return positive if len(positive) == len(values_ns) else []
