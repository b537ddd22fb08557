"""How many times as long the values of one run are as those of another, whatever their distribution.

For what is far from normal, even by its logarithm: the longest stall of each repetition is some tenths of a ms in most
and 17 ms in others, and a disturbance lifts those that were short. Kolmogorov's and Smirnov's test sees it wherever the
two distributions lie apart, without a threshold that has to be chosen. It is inverted: the interval holds each factor
that the values of one run can be multiplied with so that the test tells them from the other's no more (N. Smirnov, Ann.
Math. Stat. 19, 1948; exact as in SciPy's `ks_2samp`).

Two sessions of one machine are not alike in this figure, as a host's own stalls come in bursts that last longer than
a run: hence a confidence of 99 %. ``benchmarks/different_runs.py`` shows what that calls different and what it finds.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf, isinf
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from stealtime.report.interval import Interval

CONFIDENCE_OF_SCALE = 0.99
METHOD_OF_SCALE = (
    "longest stall of each repetition: the factors by which both runs' distributions can differ, exact (Kolmogorov, "
    f"Smirnov); {CONFIDENCE_OF_SCALE:.0%} confidence, as a host's own stalls come in bursts"
)
REPETITIONS_FOR_SCALE = 6
"""On each side. With five, only two runs that have nothing in common are evidence at this confidence."""


def judge_scale(base: Sequence[float], other: Sequence[float]) -> tuple[Interval | None, str | None]:
    """Give how many times the values of ``base`` those of ``other`` are, or why that says nothing.

    Args:
        base: One value a repetition, not negative.
        other: The same of the other run.

    Returns:
        The ratio of the medians and the interval of the factor.
    """
    fewest = min(len(base), len(other))
    if fewest < REPETITIONS_FOR_SCALE:
        return None, f"a run has {fewest} valid repetitions, and this takes {REPETITIONS_FOR_SCALE}"
    first, second = np.asarray(base, dtype=float), np.asarray(other, dtype=float)
    # The test changes where a value of one passes one of the other.
    factors = np.unique(np.outer(second[second > 0.0], 1.0 / first[first > 0.0]))
    if len(factors) == 0:
        return None, "no repetition of a run has anything over its floor"
    between = np.sqrt(factors[:-1] * factors[1:])
    places = [float(factors[0]) / 2.0, *between.tolist(), float(factors[-1]) * 2.0]
    # The smaller a factor, the shorter; the larger, the longer.
    shorter = bisect_left(places, True, key=lambda factor: not _is_beyond(factor * first, second, "greater"))
    longer = bisect_left(places, True, key=lambda factor: _is_beyond(factor * first, second, "less"))
    low = float(factors[min(shorter, len(factors)) - 1]) if shorter > 0 else 0.0
    high = inf if longer == len(places) else float(factors[longer - 1]) if longer > 0 else 0.0
    if low <= 1.0 <= high and (low == 0.0 or isinf(high)):
        return None, "too many repetitions have nothing over their floor"
    middle = float(np.median(first))
    return Interval(value=float(np.median(second)) / middle if middle > 0.0 else inf, low=low, high=high), None


def _is_beyond(
    values: NDArray[np.float64], others: NDArray[np.float64], distribution_function: Literal["greater", "less"]
) -> bool:
    """Test on one side; the distribution function of what is longer is less."""
    found = ks_2samp(values, others, alternative=distribution_function, method="exact")
    return bool(found.pvalue < (1.0 - CONFIDENCE_OF_SCALE) / 2.0)
