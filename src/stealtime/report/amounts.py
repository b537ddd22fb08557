"""The ratio of two means of amounts that may be concentrated in few trials, with its confidence interval.

A disturbance that meets half of the trials multiplies their losses and leaves the others alone. The geometric mean of
trials, and Student's t on their logarithms, see a small shift in a wide scatter there. An arithmetic mean is what a
user loses; its error is small where many trials lost, and large where a single one did. The *jackknife* of its
logarithm shows the latter: leaving that trial out changes everything (R. G. Miller, Biometrika 61, 1974).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stealtime.report.interval import SESSION_SHARE, Interval, interval_around


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
    """Find how many times the share of ``base`` that of ``other`` is, each from a session of its own."""
    sides = [_log_share(side) for side in (base, other)]
    difference = sides[1][0] - sides[0][0]
    return interval_around(difference, [(variance, trials) for _, variance, trials in sides])


def _log_share(side: Amounts) -> tuple[float, float, int]:
    """Give the logarithm of a share, and its variance in another session, by leaving out each trial in turn."""
    amounts, wholes = np.asarray(side.amounts), np.asarray(side.wholes)
    left = np.log((amounts.sum() - amounts) / (wholes.sum() - wholes))
    trials = len(amounts)
    of_mean = (trials - 1) * float(left.var())
    return float(np.log(side.share)), of_mean * (1.0 + SESSION_SHARE * trials), trials
