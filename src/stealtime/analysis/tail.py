"""What is steady of a cell: its overhead at the 99.9th percentile, with an interval over its repetitions.

A maximum is one event, and grows with the number of samples. Of a thousand samples one is longer than the 99.9th
percentile, so that a second of measuring holds some fifteen; and its interval says how far repetitions differ.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from stealtime.analysis.compare import TRIALS_MIN
from stealtime.analysis.interval import CONFIDENCE, Interval, ratio_between_trials
from stealtime.analysis.model import CellSummary


def tail_overhead(cell: CellSummary) -> Interval | None:
    """Give how far the 99.9th percentile of one repetition lies above the floor, in ns.

    Returns:
        The geometric mean of the repetitions, with Student's interval on their logarithms; None with fewer than
        ``TRIALS_MIN``, and where a repetition has none (see ``tail_overhead_ns``).
    """
    values_ns = _of_trials(cell)
    if len(values_ns) < TRIALS_MIN:
        return None
    logarithms = np.log(values_ns)
    middle, error = float(logarithms.mean()), float(stats.sem(logarithms))
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values_ns) - 1)) * error
    value, low, high = (float(np.exp(middle + sign * reach)) for sign in (0, -1, 1))
    return Interval(value, low, high)


def tail_ratio(cell: CellSummary, reference: CellSummary) -> Interval | None:
    """Give how many times the reference's a cell's overhead at the 99.9th percentile is; None as above, for either."""
    own_ns, base_ns = _of_trials(cell), _of_trials(reference)
    if min(len(own_ns), len(base_ns)) < TRIALS_MIN:
        return None
    return ratio_between_trials(base_ns, own_ns)


def why_no_interval(cells: Sequence[CellSummary]) -> str | None:
    """Say what is missing where a cell has too few repetitions for an interval; None where each has enough."""
    fewest = min((sum(trial.valid for trial in cell.trials) for cell in cells if cell.valid), default=TRIALS_MIN)
    if fewest >= TRIALS_MIN:
        return None
    return f"no interval and no ratio, as a cell has {fewest} valid repetitions: --repetitions {TRIALS_MIN} or more"


def _of_trials(cell: CellSummary) -> list[float]:
    if not cell.valid:
        return []
    values_ns = [trial.tail_overhead_ns for trial in cell.trials if trial.valid]
    positive = [value for value in values_ns if value is not None and value > 0.0]
    return positive if len(positive) == len(values_ns) else []
