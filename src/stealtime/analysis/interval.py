"""Ratios of statistics with a confidence interval, for samples that depend on each other.

Neighbouring samples of a trial are not independent (a stall lengthens several, a tick comes every so often), so the
usual intervals are far too narrow. Two methods are used here, and each result says which.

*Between trials* (three or more repetitions on both sides): each trial gives one value; Welch's t interval on their
logarithms. A bootstrap over so few trials is too narrow: resampling three values covers about 80 % instead of 95 %.

*Within a trial* (fewer repetitions): the trial is cut into :data:`BLOCKS` stretches of consecutive samples. The share
of samples above the quantile varies from stretch to stretch; that variance, which holds the dependence, gives an
interval for the rank, and the values at those ranks are the interval of the quantile (R. S. Woodruff, *Confidence
intervals for medians and other position measures*, JASA 47, 1952, with the cluster variance in place of the binomial).
Two such intervals are joined to one of the ratio by MOVER (G. Y. Zou & A. Donner, Stat. Med. 27, 2008), on logarithms.
It does not see what differs from one trial to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

BLOCKS = 40
"""Stretches a trial is cut into: enough for a variance, few enough that each outlasts what samples depend on."""
BEYOND_MIN = 4 * BLOCKS
"""Samples that must lie beyond a quantile: with fewer, most stretches hold none and their variance says little."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A value and the interval that holds the true one in 95 of 100 cases."""

    value: float
    low: float
    high: float


def quantile_interval(trials: Sequence[NDArray[np.uint32]], tail: int) -> Interval:
    """Find the quantile ``1 - 1/tail`` of all samples of some trials, with its interval.

    Args:
        trials: The samples of each trial in order of time, shape (samples,).
        tail: At least ``BEYOND_MIN * tail`` samples are needed.

    Returns:
        In the units of the samples.
    """
    pooled = np.concatenate(trials)
    count = len(pooled)
    rank = count - count // tail
    # Of n samples, rank r (from 1) is at position r - 1.
    value = int(np.partition(pooled, rank - 1)[rank - 1])
    share = 1.0 / tail
    # Half of the samples that are equal to the quantile count as above it: a coarse clock makes many equal.
    above = _block_shares(trials, value)
    spread = above.std(ddof=1) / np.sqrt(len(above))
    smallest = np.sqrt(share * (1.0 - share) / count)
    reach = stats.t.ppf(0.5 + CONFIDENCE / 2, len(above) - 1) * max(float(spread), float(smallest))
    low_rank = _bounded(np.floor(count * (1.0 - share - reach)), count)
    high_rank = _bounded(np.ceil(count * (1.0 - share + reach)) + 1, count)
    pooled.partition([low_rank - 1, high_rank - 1])
    return Interval(float(value), float(pooled[low_rank - 1]), float(pooled[high_rank - 1]))


def _block_shares(trials: Sequence[NDArray[np.uint32]], value: int) -> NDArray[np.float64]:
    """The share of samples above ``value`` in each stretch, shape (blocks,); equal ones count half."""
    total = sum(len(trial) for trial in trials)
    shares: list[float] = []
    for trial in trials:
        blocks = max(2, round(BLOCKS * len(trial) / total))
        for block in np.array_split(trial, blocks):
            above = np.count_nonzero(block > value)
            shares.append((above + 0.5 * np.count_nonzero(block == value)) / len(block))
    return np.asarray(shares)


def _bounded(rank: float, count: int) -> int:
    return int(min(max(rank, 1), count))


def ratio_of_intervals(first: Interval, second: Interval) -> Interval:
    """Join two independent intervals of positive values to one of ``second / first`` (MOVER on logarithms)."""
    a = np.log([first.value, first.low, first.high])
    b = np.log([second.value, second.low, second.high])
    difference = b[0] - a[0]
    below = np.hypot(b[0] - b[1], a[2] - a[0])
    above = np.hypot(b[2] - b[0], a[0] - a[1])
    value, low, high = (float(np.exp(x)) for x in (difference, difference - below, difference + above))
    return Interval(value, low, high)


def ratio_between_trials(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Find the ratio of the geometric means of two sets of trials (Welch's t interval on logarithms).

    Args:
        first: One positive value a trial, at least two and not all equal on both sides.
        second: The same.
    """
    a, b = np.log(first), np.log(second)
    ratio = float(np.exp(b.mean() - a.mean()))
    if a.std() == 0.0 and b.std() == 0.0:
        # All trials agree to the last unit: there is no spread to estimate from.
        return Interval(ratio, ratio, ratio)
    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval(CONFIDENCE)
    return Interval(ratio, float(np.exp(interval.low)), float(np.exp(interval.high)))
