"""Quantiles of Student's t against scipy's."""

import pytest
from scipy.special import stdtrit

from stealtime.vocabulary.student import student_quantile


@pytest.mark.parametrize("degrees", range(1, 13))
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.975, 0.9995])
def test_quantiles_are_those_of_scipy(degrees: int, probability: float) -> None:
    assert student_quantile(degrees, probability) == pytest.approx(stdtrit(degrees, probability), rel=1e-9, abs=1e-12)
