"""Two clocks on one line: the true offset lies within the bound, however the round trip is divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.vocabulary.alignment import ClockExchange, align
from stealtime.vocabulary.clocks import ClockReading

OFFSET_NS = -123_456_789


@st.composite
def exchanges(draw: st.DrawFn) -> ClockExchange:
    before_ns = draw(st.integers(min_value=10**9, max_value=10**12))
    there_ns = draw(st.integers(min_value=0, max_value=10**7))
    back_ns = draw(st.integers(min_value=0, max_value=10**7))
    reading = ClockReading(tsc=1, monotonic_raw_ns=before_ns + there_ns + OFFSET_NS, monotonic_ns=0, bracket_tsc=40)
    return ClockExchange(before_ns, before_ns + there_ns + back_ns, reading)


@given(st.lists(exchanges(), min_size=1, max_size=12))
def test_the_true_offset_lies_within_the_bound(made: list[ClockExchange]) -> None:
    alignment = align(made)
    assert abs(alignment.machine_minus_host_ns - OFFSET_NS) <= alignment.error_ns
    assert alignment.error_ns == -(-min(exchange.round_trip_ns for exchange in made) // 2)
    assert alignment.exchanges == len(made)


def test_no_exchange_and_an_answer_before_its_question_are_refused() -> None:
    reading = ClockReading(tsc=1, monotonic_raw_ns=1, monotonic_ns=1, bracket_tsc=1)
    with pytest.raises(ValueError, match="no clock exchange"):
        align([])
    with pytest.raises(ValueError, match="took -5 ns"):
        align([ClockExchange(10, 5, reading)])
