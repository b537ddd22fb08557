"""By what factor the values of two runs differ: what is a difference, and how often equal runs are one."""

from math import inf

import numpy as np
import pytest
from scipy.stats import ks_2samp
from truth import repetitions

from stealtime.report.scale import CONFIDENCE_OF_SCALE, REPETITIONS_FOR_SCALE, judge_scale

CALM = [0.18, 0.2, 0.23, 0.23, 0.25, 0.31, 0.32, 0.91, 1.36, 4.04, 4.06, 4.09]
"""ms: the longest stalls of twelve repetitions of 10 s on User-Mode Linux, as they were measured."""
STALLED = [5.13, 5.13, 5.14, 5.14, 5.15, 5.16, 5.16, 5.16, 5.18, 5.18, 5.19, 5.21]
"""The same with a stall of 5 ms once in each."""
EQUAL = repetitions(few=75, full=300)
"""Pairs of equal runs."""


def test_a_stall_in_each_repetition_is_told_from_those_of_some() -> None:
    ratio, because = judge_scale(CALM, STALLED)
    assert because is None
    assert ratio is not None
    assert 1.0 < ratio.low < ratio.value < ratio.high < inf
    back, _ = judge_scale(STALLED, CALM)
    assert back is not None
    assert (back.low, back.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


def test_the_interval_holds_what_the_test_does_not_refuse() -> None:
    random = np.random.default_rng(8)
    for _ in range(20):
        base, other = random.lognormal(0.0, 1.0, (2, 9))
        ratio, _ = judge_scale(base.tolist(), (3.0 * other).tolist())
        assert ratio is not None
        for factor in (0.999 * ratio.low, 1.001 * ratio.low, 0.999 * ratio.high, 1.001 * ratio.high):
            shares = [
                ks_2samp(factor * base, 3.0 * other, alternative=side, method="exact").pvalue
                for side in ("greater", "less")
            ]
            is_refused = min(shares) < (1.0 - CONFIDENCE_OF_SCALE) / 2.0
            assert is_refused != (ratio.low <= factor <= ratio.high)


def test_too_few_repetitions_say_nothing() -> None:
    few = REPETITIONS_FOR_SCALE - 1
    ratio, because = judge_scale([1.0] * few, [100.0] * 12)
    assert (ratio, because) == (None, "a run has 5 valid repetitions, and this takes 6")
    enough, _ = judge_scale([1.0 + one for one in range(few + 1)], [100.0 + one for one in range(few + 1)])
    assert enough is not None
    assert enough.low > 1.0


def test_repetitions_that_lost_nothing_say_nothing_where_nothing_is_told_from_them() -> None:
    assert judge_scale([0.0] * 8, [0.0] * 8) == (None, "no repetition of a run has anything over its floor")
    ratio, because = judge_scale([0.0] * 7 + [1.0], [0.0] * 7 + [1.1])
    assert (ratio, because) == (None, "too many repetitions have nothing over their floor")
    lost, _ = judge_scale([0.0] * 7 + [1.0], STALLED)
    assert lost is not None
    assert lost.low > 1.0


@pytest.mark.longer
def test_equal_runs_are_called_different_as_seldom_as_it_says() -> None:
    random = np.random.default_rng(3)
    pairs = random.pareto(1.0, (EQUAL, 2, 12)).tolist()
    ratios = [judge_scale(a, b)[0] for a, b in pairs]
    assert sum(one is not None and not one.low <= 1.0 <= one.high for one in ratios) <= EQUAL / 75
