"""The ratio of two rates from counts of rare events, with its confidence interval.

A stall of 5 ms once in 10 s is in no percentile, and hardly in a mean; it is in a *count*: seven against none. Given
how many events both sides have together, the number on one side is binomial where events come independently (J.
Przyborowski, H. Wilenski, Biometrika 31, 1940). Two things are added, because machines are not like that:

*Bursts.* Events of one trial come together. The counts are divided by the dispersion between trials (Pearson's
chi-square by its degrees of freedom, each side around a rate of its own; never less than 1), as in quasi-Poisson models
(P. McCullagh, J. A. Nelder, *Generalized Linear Models*, 2nd ed., 1989, ch. 6). So a burst counts as one event.

*Sessions.* The rate itself differs from one session to the next, by a normal error of its logarithm whose standard
deviation is :data:`SESSION_ERROR` on each side; the binomial is averaged over it.

The interval inverts mid-p (H. O. Lancaster, JASA 56, 1961): an exact test of few events rarely gets near its 5 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from stealtime.report.interval import CONFIDENCE, Interval

SESSION_ERROR = 0.6
"""Standard deviation of the logarithm of a rate between sessions: on a busy host, equal runs a minute apart differed by
a factor of 9 in stalls over 85 us. Seven against none are a difference still."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS /= _WEIGHTS.sum()
_LOG_RATIO_LIMIT = 50.0
_BOUNDLESS = 1e6
"""Who cannot exclude so many times as many excludes nothing."""
_LOG_RATIO_ERROR = 1e-6
"""Of the ends of an interval, which are told with three digits."""


@dataclass(frozen=True)
class Counts:
    """Events of one side, a number a trial."""

    events: Sequence[float]
    chances: Sequence[float]
    """How much each trial gave for them to happen in, positive: seconds that were watched, jobs that were released."""

    @property
    def total(self) -> float:
        return float(sum(self.events))

    @property
    def rate(self) -> float:
        """Events for each of the chances."""
        return self.total / sum(self.chances)

    @property
    def _chi_square(self) -> float:
        if self.total == 0.0:
            return 0.0
        expected = [self.rate * chances for chances in self.chances]
        return sum((count - mean) ** 2 / mean for count, mean in zip(self.events, expected, strict=True))


def dispersion(*sides: Counts) -> float:
    """Tell how many events come together: the variance between trials as a multiple of that of independent events."""
    degrees = sum(len(side.events) - 1 for side in sides)
    return max(1.0, sum(side._chi_square for side in sides) / degrees) if degrees > 0 else 1.0


def ratio_of_rates(base: Counts, other: Counts) -> Interval | None:
    """Find how many times the rate of ``base`` that of ``other`` is, each from a session of its own.

    Returns:
        With a high end that is infinite where ``base`` has no event, or so little of one after the division by the
        dispersion that it excludes no ratio, and a low end of 0 where the same is so of ``other``; None where neither
        has an event.
    """
    spread = dispersion(base, other)
    first, second = base.total / spread, other.total / spread
    if first + second == 0.0:
        return None
    exposure = log(sum(other.chances) / sum(base.chances))

    def surplus(log_ratio: float, share: float) -> float:
        """Give by how much it is likelier than ``share`` that ``other`` has as many events as it has, or more."""
        odds = np.exp(np.clip(exposure + log_ratio + sqrt(2.0) * SESSION_ERROR * _NODES, -700.0, 700.0))
        return float(_WEIGHTS @ _mid_p(second, first, odds)) - share

    def end(share: float) -> float:
        limit = _LOG_RATIO_LIMIT
        # Events that all come together may count as so little of one that no ratio contradicts them.
        if surplus(-limit, share) >= 0.0:
            return -inf
        if surplus(limit, share) <= 0.0:
            return inf
        return float(optimize.brentq(surplus, -limit, limit, args=(share,), xtol=_LOG_RATIO_ERROR))

    beyond = (1.0 - CONFIDENCE) / 2.0
    return Interval(
        value=other.rate / base.rate if first > 0.0 else inf,
        low=exp(end(beyond)) if second > 0.0 else 0.0,
        high=exp(end(1.0 - beyond)) if first > 0.0 else inf,
    )


def judge_rates(base: Counts, other: Counts) -> tuple[Interval | None, str | None]:
    """Give the ratio of two rates, or why none can be told: an interval without an end that holds 1 says nothing."""
    ratio = ratio_of_rates(base, other)
    if ratio is None:
        return None, "there is none in either run"
    if ratio.low <= 1.0 <= ratio.high and (ratio.low < 1.0 / _BOUNDLESS or ratio.high > _BOUNDLESS):
        if base.total > 0.0 and other.total > 0.0:
            return None, "too few of them come apart: those of one run count as less than one"
        return None, "there is none in one run, and in the other too few that come apart"
    return ratio, None


def method_of_rates(base: Counts, other: Counts, what: str) -> str:
    bursts = dispersion(base, other)
    together = "" if bursts == 1.0 else f", of which {bursts:.1f} count as one since they come in bursts"
    return f"{what}: {base.total:.0f} and {other.total:.0f}{together}; binomial, averaged over sessions"


def _mid_p(own: float, others: float, odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the chance of more than ``own`` events and half of that of as many, of ``own + others`` with ``odds`` each.

    The numbers need not be whole: binomial tails are incomplete beta functions, which join them smoothly.
    """
    at_least = _beta_tail(own, others + 1.0, odds) if own > 0.0 else np.ones_like(odds)
    more = _beta_tail(own + 1.0, others, odds) if others > 0.0 else np.zeros_like(odds)
    chance: NDArray[np.float64] = (at_least + more) / 2.0
    return chance


def _beta_tail(a: float, b: float, odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the regularised incomplete beta function at ``odds / (1 + odds)``, also where that rounds to 1."""
    is_low, tail = odds < 1.0, np.empty_like(odds)
    special.betainc(a, b, odds / (1.0 + odds), out=tail, where=is_low)
    special.betaincc(b, a, 1.0 / (1.0 + odds), out=tail, where=~is_low)
    return tail
