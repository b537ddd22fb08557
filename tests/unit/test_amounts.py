"""What many trials lost is told from what one lost."""

import numpy as np
import pytest
import truth

from stealtime.report.amounts import Amounts, ratio_of_amounts
from stealtime.report.interval import SESSION_SHARE

REPEATS = truth.repetitions(few=100, full=400)
WRONG_MAX = truth.wrong_at_most(0.05, REPEATS)


def lost(*amounts: float) -> Amounts:
    return Amounts(amounts, [1.0] * len(amounts))


CALM = lost(0.010, 0.011, 0.009, 0.010, 0.012, 0.010, 0.009, 0.011)


def test_a_loss_in_half_of_the_trials_is_found() -> None:
    found = ratio_of_amounts(CALM, lost(0.010, 0.50, 0.009, 0.51, 0.49, 0.010, 0.50, 0.011))
    assert found.value == pytest.approx(24.8, rel=0.02)
    assert found.low > 1.0


def test_the_same_loss_in_one_trial_is_not() -> None:
    found = ratio_of_amounts(CALM, lost(0.010, 2.0, 0.009, 0.010, 0.012, 0.010, 0.009, 0.011))
    assert found.value > 20.0
    assert found.low < 1.0


def test_trials_count_by_how_long_they_were_watched() -> None:
    found = ratio_of_amounts(lost(1.0, 1.0, 1.0), Amounts([1.0, 4.0, 1.0], [0.5, 2.0, 0.5]))
    assert found.value == pytest.approx(2.0)


@pytest.mark.longer
def test_equal_losses_of_different_sessions_are_called_different_in_5_percent() -> None:
    random = np.random.default_rng(22)
    within = random.standard_normal((REPEATS, 2, 8))
    between = np.sqrt(SESSION_SHARE) * random.standard_normal((REPEATS, 2, 1))
    wrong = 0
    for a, b in np.exp(0.3 * (within + between)):
        found = ratio_of_amounts(lost(*a), lost(*b))
        wrong += not found.low <= 1.0 <= found.high
    assert wrong <= WRONG_MAX
