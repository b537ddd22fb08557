"""Shares with their intervals: of jobs, which depend on each other within a repetition, and of whole repetitions."""

from collections.abc import Sequence
from math import sqrt

from scipy import stats

from stealtime.report.interval import CONFIDENCE, REPETITIONS_MIN
from stealtime.studies.realtime.analysis.model import Share


def clustered_share(counts: Sequence[int], totals: Sequence[int]) -> Share | None:
    """Give a share of jobs with an interval in which a repetition counts as one observation.

    Jobs of one repetition share their task set and their disturbances, so they are no independent ones. The estimator
    and its variance are those of a ratio of clusters (W. G. Cochran, Sampling Techniques, 3rd ed., 1977, ch. 6 and 9A).

    Args:
        counts: Of each repetition, what is counted.
        totals: Of each repetition, what it is a share of.
    """
    total = sum(totals)
    if not total:
        return None
    share, clusters = sum(counts) / total, len(totals)
    if clusters < REPETITIONS_MIN:
        return Share(share=share, low=None, high=None, method=f"fewer than {REPETITIONS_MIN} repetitions")
    if not 0 < share < 1:
        return Share(share=share, low=None, high=None, method="no repetition differs from another: see the repetitions")
    squares = sum((count - share * one) ** 2 for count, one in zip(counts, totals, strict=True))
    error = sqrt(clusters / (clusters - 1) * squares) / total
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, clusters - 1)) * error
    return Share(
        share=share, low=max(0.0, share - reach), high=min(1.0, share + reach), method="ratio over repetitions, t"
    )


def wilson_share(count: int, total: int) -> Share | None:
    """Give a share of independent ones with its score interval (E. B. Wilson, JASA 22, 1927)."""
    if not total:
        return None
    quantile = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
    share, square = count / total, quantile**2 / total
    middle = (share + square / 2) / (1 + square)
    reach = quantile / (1 + square) * sqrt(share * (1 - share) / total + square / (4 * total))
    return Share(share=share, low=max(0.0, middle - reach), high=min(1.0, middle + reach), method="Wilson")
