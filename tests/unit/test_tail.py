"""The overhead at the 99.9th percentile is known no better than its clock counts."""

import numpy as np
import pytest
from measured_campaign import cell

from stealtime.report.cells.surroundings import Clock
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import tail_overhead, tail_ratio


def counted_in(units_per_s: float, one: CellSummary) -> CellSummary:
    clock = Clock(
        name="counter", units_per_s=units_per_s, tsc_hz=1e9, source="made up", worst_disagreement_ppm=0.0, kernel=None,
        host=None, alignment_error_bound_ns=None,
    )  # fmt: skip
    return one.model_copy(update={"clock": clock})


COARSE = counted_in(1e6, cell("uml", "alone", "tick", 20_000.0))
"""Each repetition reads 6 us, of a clock that counts in 1 us."""
FINE = counted_in(2.1e9, cell("native", "alone", "tick", 20_000.0))


def test_equal_readings_of_a_coarse_clock_are_as_uncertain_as_its_unit() -> None:
    found = tail_overhead(COARSE)
    assert found is not None
    assert found.value == pytest.approx(6_000.0)
    assert np.log(found.high / found.value) == pytest.approx(1_000 / 6_000)
    assert np.log(found.value / found.low) == pytest.approx(1_000 / 6_000)
    sharp = tail_overhead(FINE)
    assert sharp is not None
    assert sharp.low < sharp.value < sharp.high < 6_001.0


@pytest.mark.parametrize(("own", "reference"), [(COARSE, FINE), (FINE, COARSE)])
def test_the_coarser_clock_limits_a_ratio(own: CellSummary, reference: CellSummary) -> None:
    found = tail_ratio(own, reference)
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert np.log(found.high) == pytest.approx(2 * 1_000 / 6_000)
