"""The ratio of two means of amounts that may be concentrated in few trials, with its confidence interval.

A disturbance that meets half of the trials multiplies their losses and leaves the others alone. The geometric mean of
trials, and Student's t on their logarithms, see a small shift in a wide scatter there. An arithmetic mean is what a
user loses; its error is small where many trials lost, and large where a single one did. The *jackknife* of its
logarithm shows the latter: leaving that trial out changes everything (R. G. Miller, Biometrika 61, 1974).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from stealtime.report.interval import SESSION_SHARE, Interval, interval_around

SESSION_ERROR = 0.3
"""Standard deviation of the logarithm between sessions, besides: on a busy host, equal runs a minute apart differed by
a factor of 2 in what they lost, far more than their trials told."""


@dataclass(frozen=True)
class Amounts:
    """What each trial of one side had, and what it is a share of."""

    amounts: Sequence[float]
    """Not negative; at least two are positive."""
    wholes: Sequence[float]
    """Positive: time watched, or samples."""

    @property
    def share(self) -> float:
        """Of all wholes together."""
        return float(sum(self.amounts) / sum(self.wholes))


def ratio_of_amounts(base: Amounts, other: Amounts) -> Interval:
    """Find how many times the share of ``base`` that of ``other`` is, each from a session of its own.

    The variance between sessions is a share of that between trials, of the geometric mean of both sides': a disturbance
    that meets half of the trials of one side makes these differ, and says nothing about sessions.
    """
    (first, first_variance), (second, second_variance) = (_log_share(side) for side in (base, other))
    session = SESSION_SHARE * sqrt(first_variance * second_variance) + SESSION_ERROR**2
    trials = len(base.amounts), len(other.amounts)
    return interval_around(
        second - first,
        [
            (first_variance / trials[0], trials[0]),
            (second_variance / trials[1], trials[1]),
            (2.0 * session, min(trials)),
        ],
    )


def _log_share(side: Amounts) -> tuple[float, float]:
    """Give the logarithm of a share, and the variance of one trial's part in it, by leaving out each trial in turn."""
    amounts, wholes = np.asarray(side.amounts), np.asarray(side.wholes)
    left = np.log((amounts.sum() - amounts) / (wholes.sum() - wholes))
    trials = len(amounts)
    return float(np.log(side.share)), trials * (trials - 1) * float(left.var())
