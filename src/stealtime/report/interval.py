"""Confidence intervals from repetitions: of a figure, and of the ratio of two.

A repetition is one value (a percentile, a maximum), from a machine that was booted for it alone. Nothing here looks at
single samples: those of one trial share its boot, its memory layout and its minute, and an interval made from them
holds none of what differs from one trial to the next.

*What varies.* Between the repetitions of a run: boot, layout in memory, interruptions, the host's drift over its
minutes. Between two runs (*sessions*): the same, and whatever the host was doing that day, which a single run does not
see. So an interval that is to hold in another session adds a variance between sessions, which is taken to be
:data:`SESSION_SHARE` of the variance between repetitions, and does not shrink with their number. That share was found
by comparing runs that are equal (``benchmarks/equal_runs.py``; ``docs/truth.md`` has the figures).

*How.* Student's t on logarithms, after B. L. Welch (Biometrika 34, 1947) for two sides of unequal spread; the degrees
of freedom are those of the repetitions. A bootstrap over five values is too narrow, and an exact test of ranks cannot
take a variance into account that neither side has seen. The clock's resolution widens each interval, so that
repetitions that agree to the last unit are not certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stealtime.vocabulary.student import student_quantile

CONFIDENCE = 0.95
REPETITIONS_MIN = 4
"""On each side. With fewer, one odd repetition decides, and the t quantile is so large that little could be found."""
SESSION_SHARE = 0.25
"""The variance between sessions as a share of that between repetitions: twice the median of equal runs' figures. Half
of all, which was their 90th percentile, called 1 to 2 % of equal figures different and missed what it should see."""

METHOD_BY_RANKS = (
    "floor: median ratio of all pairs of repetitions, by ranks; a variance between sessions is added, "
    f"{SESSION_SHARE:g} times that between repetitions"
)


@dataclass(frozen=True)
class Interval:
    """A value and the interval that holds the true one in 95 of 100 cases."""

    value: float
    low: float
    high: float


def interval_of_repetitions(values: Sequence[float], resolution: float = 0.0) -> Interval:
    """Find the geometric mean of some repetitions with the interval that it has in another session.

    Args:
        values: One positive value a repetition, at least two (:data:`REPETITIONS_MIN` for a verdict).
        resolution: By how much a value can be off because the clock counts in units, in the units of the values.
    """
    logarithms = np.log(values)
    share = 1.0 / len(values) + SESSION_SHARE
    variance = share * float(logarithms.var(ddof=1))
    mean = float(logarithms.mean())
    reach = _t(len(values) - 1) * np.sqrt(variance) + resolution / np.exp(mean)
    return _from_logarithms(mean, float(reach))


def ratio_of_repetitions(
    base: Sequence[float], other: Sequence[float], *, same_session: bool, resolution: float = 0.0
) -> Interval:
    """Find the ratio of the geometric means of two sides, ``other`` to ``base``, with its interval.

    Args:
        base: One positive value a repetition, at least two (:data:`REPETITIONS_MIN` for a verdict).
        other: The same.
        same_session: Whether the repetitions of both sides took turns in one run, as platforms do; else a variance
            between sessions is added on each side.
        resolution: As in :func:`interval_of_repetitions`.
    """
    sides = [np.log(base), np.log(other)]
    session = 0.0 if same_session else SESSION_SHARE
    variances = [((1.0 / len(side) + session) * float(side.var(ddof=1)), len(side)) for side in sides]
    difference = float(sides[1].mean() - sides[0].mean())
    at_most_off = resolution * sum(float(np.exp(-side.mean())) for side in sides)
    return interval_around(difference, variances, at_most_off)


def ratio_by_ranks(base: Sequence[float], other: Sequence[float], *, resolution: float = 0.0) -> Interval:
    """Find the ratio of two sides whose repetitions have outliers on one side, as minima have, with its interval.

    It is the median of the ratios of all pairs (J. L. Hodges, E. L. Lehmann, Ann. Math. Statist. 34, 1963), with the
    interval that the rank test of H. B. Mann and D. R. Whitney (Ann. Math. Statist. 18, 1947) leaves, widened by a
    variance between sessions: :data:`SESSION_SHARE` of that between repetitions, which the median deviation tells.

    Args:
        base: One positive value a repetition, at least ``REPETITIONS_MIN``.
        other: The same.
        resolution: As in :func:`interval_of_repetitions`.
    """
    # Loading it takes longer than most that is done here, and nothing else needs it.
    from scipy import stats

    sides = [np.log(base), np.log(other)]
    differences = np.sort(np.subtract.outer(sides[1], sides[0]).ravel())
    left_out = _pairs_left_out(len(base), len(other))
    middle = float(np.median(differences))
    session = sum(SESSION_SHARE * float(stats.median_abs_deviation(side, scale="normal")) ** 2 for side in sides)
    reach = _t(min(len(base), len(other)) - 1) ** 2 * session
    off = resolution * sum(float(np.exp(-np.median(side))) for side in sides)
    low = middle - np.hypot(middle - differences[left_out], np.sqrt(reach)) - off
    high = middle + np.hypot(differences[len(differences) - 1 - left_out] - middle, np.sqrt(reach)) + off
    value, low, high = np.exp([middle, low, high])
    return Interval(float(value), float(low), float(high))


def _pairs_left_out(base: int, other: int) -> int:
    """Give how many of the smallest differences of pairs an interval may leave out, and as many of the largest."""
    # Of all orders of both sides, how many have each number of pairs in which the other side is smaller.
    ways = np.zeros((base + 1, base * other + 1))
    ways[0, 0] = 1.0
    for each in range(1, other + base + 1):
        for taken in range(min(base, each), 0, -1):
            shift = each - taken
            if shift <= other:
                ways[taken, shift:] += ways[taken - 1, : base * other + 1 - shift]
    chance = np.cumsum(ways[base]) / ways[base].sum()
    return max(0, int(np.searchsorted(chance, (1.0 - CONFIDENCE) / 2.0, side="right")) - 1)


def interval_around(difference: float, variances: Sequence[tuple[float, int]], at_most_off: float = 0.0) -> Interval:
    """Give the interval of a ratio by the difference of two logarithms.

    Args:
        difference: Between the logarithms.
        variances: That it is made of, each with the number of repetitions that it was estimated from.
        at_most_off: By how much the difference may be off besides.
    """
    total = sum(variance for variance, _ in variances)
    reach = at_most_off
    if total > 0.0:
        parts = (variance**2 / (repetitions - 1) for variance, repetitions in variances)
        reach += _t(total**2 / sum(parts)) * np.sqrt(total)
    return _from_logarithms(difference, float(reach))


def method_of_ratio(base: int, other: int) -> str:
    """Say how the interval of a ratio was found, of two sides with so many repetitions, from different sessions."""
    return (
        f"t interval on the logarithms of {base} and {other} repetitions; a variance between sessions is added, "
        f"{SESSION_SHARE:g} times that between repetitions"
    )


def _t(degrees: float) -> float:
    probability = 0.5 + CONFIDENCE / 2
    # As the repetitions of one side have. Loading scipy takes longer than all that is asked of many hosts.
    if float(degrees).is_integer():
        return student_quantile(int(degrees), probability)
    from scipy import special

    return float(special.stdtrit(degrees, probability))


def _from_logarithms(middle: float, reach: float) -> Interval:
    value, low, high = np.exp([middle, middle - reach, middle + reach])
    return Interval(float(value), float(low), float(high))
