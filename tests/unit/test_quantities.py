"""Durations and sizes are read whole and written back exactly."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.vocabulary.quantities import (
    approximate_duration,
    approximate_size,
    format_duration,
    format_size,
    parse_duration_ns,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("68us", 68_000), ("1m30s", 90 * 10**9), ("1.5s", 1_500_000_000), ("0.5us", 500), ("1 h 2 s", 3602 * 10**9)],
)
def test_a_duration_is_read_whole(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "part_of_message"),
    [
        ("5", "no unit"),
        ("5x", "'x'"),
        ("s", "'s'"),
        ("5s1m", "'1m'"),
        ("1m30", "no unit"),
        ("0s", "'0s'"),
        ("", "empty"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_text(text: str, part_of_message: str) -> None:
    with pytest.raises(ValueError, match=part_of_message):
        parse_duration_ns(text)


@given(st.integers(min_value=1, max_value=10**18))
def test_a_duration_survives_writing_and_reading(nanoseconds: int) -> None:
    assert parse_duration_ns(format_duration(nanoseconds)) == nanoseconds


@given(st.integers(min_value=1, max_value=1 << 60))
def test_a_size_survives_writing_and_reading(size_bytes: int) -> None:
    assert parse_size_bytes(format_size(size_bytes)) == size_bytes


@given(st.text(alphabet="0123456789.smhundkKMGiB- ", max_size=12))
def test_what_was_read_is_more_than_nothing(text: str) -> None:
    for parse in (parse_duration_ns, parse_size_bytes):
        with contextlib.suppress(ValueError):
            assert parse(text) > 0


def test_a_duration_for_people_is_short() -> None:
    assert [approximate_size(size << 20) for size in (3, 999, 1023, 1300)] == [
        "3 MiB",
        "999 MiB",
        "1023 MiB",
        "1.27 GiB",
    ]
    assert [approximate_duration(s) for s in (4.23, 65, 11400)] == ["4.2 s", "1 min 05 s", "3 h 10 min"]
