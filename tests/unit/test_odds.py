"""In how many repetitions something happened, of two runs: what is a difference, and how often equal runs are one."""

from math import inf, isinf

import numpy as np
import pytest
from scipy.stats import fisher_exact

from stealtime.report.odds import judge_odds


@pytest.mark.parametrize(
    ("base", "other", "is_higher"),
    [
        ((2, 5), (7, 0), True),
        ((3, 4), (7, 0), False),
        ((5, 5), (10, 0), True),
        ((0, 4), (4, 0), True),
        ((1, 3), (4, 0), False),
    ],
)
def test_all_repetitions_against_some(base: tuple[int, int], other: tuple[int, int], is_higher: bool) -> None:
    ratio, because = judge_odds(base, other)
    assert (ratio is not None and ratio.low > 1.0) == is_higher
    assert (because is None) == is_higher
    one_sided = fisher_exact([other, base], alternative="greater").pvalue
    assert (one_sided < 0.025) == is_higher, "the ends of the interval are those of the test"
    back, _ = judge_odds(other, base)
    assert (back is not None and back.high < 1.0) == is_higher


def test_some_against_some_have_a_bound() -> None:
    ratio, because = judge_odds((6, 6), (7, 5))
    assert because is None
    assert ratio is not None
    assert 0.0 < ratio.low < 1.0 < ratio.value < ratio.high < inf


def test_all_in_both_say_nothing() -> None:
    ratio, because = judge_odds((6, 0), (6, 0))
    assert ratio is None or isinf(ratio.high)
    assert because is not None


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_equal_runs_are_called_different_in_less_than_5_percent(share: float) -> None:
    random = np.random.default_rng(3)
    counts = random.binomial(12, share, (500, 2))
    ratios = [judge_odds((int(a), 12 - int(a)), (int(b), 12 - int(b)))[0] for a, b in counts]
    different = sum(one is not None and not one.low <= 1.0 <= one.high for one in ratios)
    assert different / len(counts) <= 0.05
