"""The ratio of two odds, from in how many repetitions of each run something happened, with its confidence interval.

What comes once in each repetition of one run, and in some of the other's by chance, is few events in all; but that no
repetition is without it tells much. The interval is the exact one, conditional on how many repetitions of both runs
have it (R. A. Fisher, J. R. Stat. Soc. 98, 1935; J. Cornfield, Proc. 3rd Berkeley Symp. 4, 1956).
"""

from functools import cache
from math import isinf

from scipy.stats.contingency import odds_ratio

from stealtime.report.interval import CONFIDENCE, Interval

METHOD_OF_ODDS = (
    "repetitions: the ratio of the odds that one has such a stall, exact for the numbers that have (Fisher, Cornfield)"
)


@cache
def judge_odds(base: tuple[int, int], other: tuple[int, int]) -> tuple[Interval | None, str | None]:
    """Give how many times the odds of ``base`` those of ``other`` are, or why that says nothing.

    Args:
        base: In how many repetitions it happened, and in how many it did not.
        other: The same of the other run.
    """
    found = odds_ratio([other, base], kind="conditional")
    ends = found.confidence_interval(CONFIDENCE)
    ratio = Interval(value=float(found.statistic), low=float(ends.low), high=float(ends.high))
    if ratio.low <= 1.0 <= ratio.high and (ratio.low == 0.0 or isinf(ratio.high)):
        return None, "all or none of a run's repetitions have one, and of the other's too many alike"
    return ratio, None
