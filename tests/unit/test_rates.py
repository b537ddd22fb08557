"""Rates of rare events are told apart by their counts, and equal ones seldom are."""

from math import inf

import numpy as np
import pytest
import truth
from hypothesis import given
from hypothesis import strategies as st

from stealtime.report.rates import SESSION_ERROR, Counts, dispersion, judge_rates, ratio_of_rates

REPEATS = truth.repetitions(few=100, full=400)
WRONG_MAX = truth.wrong_at_most(0.05, REPEATS)
TRIAL_S = 10.0


def counts(*events: int) -> Counts:
    return Counts(events, [TRIAL_S] * len(events))


def test_seven_stalls_against_none_are_a_difference_and_five_are_not() -> None:
    found, because = judge_rates(counts(0, 0, 0, 0, 0, 0, 0), counts(1, 1, 1, 1, 1, 1, 1))
    assert found is not None
    assert (because, found.value, found.high) == (None, inf, inf)
    assert 1.0 < found.low < 2.0
    assert judge_rates(counts(0, 0, 0, 0), counts(1, 0, 1, 1))[0] is None


def test_the_other_way_round_is_the_inverse() -> None:
    one, other = counts(3, 1, 2, 4), counts(29, 32, 28, 34)
    forth, back = ratio_of_rates(one, other), ratio_of_rates(other, one)
    assert forth is not None
    assert back is not None
    assert (forth.value, forth.low, forth.high) == pytest.approx((1 / back.value, 1 / back.high, 1 / back.low))
    assert forth.low > 1.0


def test_twice_the_time_is_half_the_rate() -> None:
    short = Counts([20, 22], [5.0, 5.0])
    found = ratio_of_rates(short, Counts([20, 22], [10.0, 10.0]))
    assert found is not None
    assert found.value == pytest.approx(0.5)


def test_a_burst_counts_as_one_event() -> None:
    burst, apart = counts(8, 0, 0, 0, 0, 0, 0, 0), counts(1, 1, 1, 1, 1, 1, 1, 1)
    nothing = counts(0, 0, 0, 0, 0, 0, 0, 0)
    assert dispersion(nothing, burst) == pytest.approx(4.0)
    assert judge_rates(nothing, burst) == (None, "there is none in one run, and in the other too few that come apart")
    assert judge_rates(nothing, apart)[0] is not None


def test_one_event_beside_a_burst_is_not_judged() -> None:
    # Of two equal runs: by the dispersion of the burst the single event counts as a seventeenth of one.
    found, because = judge_rates(counts(0, 37, 2, 0), counts(0, 0, 1, 0))
    assert (found, because) == (None, "too few of them come apart: those of one run count as less than one")
    assert judge_rates(counts(0, 0, 1, 0), counts(0, 37, 2, 0)) == (None, because)
    ratio = ratio_of_rates(counts(0, 37, 2, 0), counts(0, 0, 1, 0))
    assert ratio is not None
    assert ratio.low == 0.0
    assert ratio.value == pytest.approx(1 / 39)
    assert 1.0 < ratio.high < inf
    back = ratio_of_rates(counts(0, 0, 1, 0), counts(0, 37, 2, 0))
    assert back is not None
    assert back.low == pytest.approx(1 / ratio.high)
    assert back.high == inf


EVENTS = st.lists(st.integers(0, 100_000), min_size=1, max_size=6)


@given(EVENTS, EVENTS)
def test_any_counts_are_judged_or_not_with_a_reason(base: list[int], other: list[int]) -> None:
    ratio, because = judge_rates(counts(*base), counts(*other))
    assert (ratio is None) != (because is None)
    if ratio is not None:
        assert 0.0 <= ratio.low <= ratio.high
        assert ratio.low > 0.0 or ratio.high < inf
    back = judge_rates(counts(*other), counts(*base))[0]
    assert (back is None) == (ratio is None)
    if ratio is not None and back is not None:
        assert (back.low > 1.0, back.high < 1.0) == (ratio.high < 1.0, ratio.low > 1.0)


def test_what_neither_has_is_not_judged() -> None:
    assert judge_rates(counts(0, 0), counts(0, 0)) == (None, "there is none in either run")


@pytest.mark.longer
@pytest.mark.parametrize("expected", [0.7, 3.0, 30.0])
def test_equal_rates_of_different_sessions_are_called_different_in_5_percent(expected: float) -> None:
    random = np.random.default_rng(21)
    wrong = 0
    for _ in range(REPEATS):
        session = np.exp(SESSION_ERROR * random.standard_normal(2))
        found, _ = judge_rates(*(counts(*random.poisson(expected * level, 8)) for level in session))
        wrong += found is not None and not found.low <= 1.0 <= found.high
    assert wrong <= WRONG_MAX
