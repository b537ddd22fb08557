"""CPU lists as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.lab.scenarios.cpus import parse_cpus
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import UsageError

ALLOWED = (0, 1, 2, 3, 6, 7)


@pytest.mark.parametrize(("text", "cpus"), [("1", (1,)), ("1,3", (1, 3)), ("6-7,0-2", (6, 7, 0, 1, 2))])
def test_a_cpu_list_is_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text, ALLOWED) == cpus


@pytest.mark.parametrize(
    ("text", "part_of_message"),
    [
        ("9", "CPU 9"),
        ("3-6", "CPU 4"),
        ("0-99999999999", "CPU 99999999999"),
        ("3-1", "backwards"),
        ("a", "'a'"),
        ("1,,2", "''"),
        ("-1", "'-1'"),
        ("1,1", "twice"),
    ],
)
def test_an_impossible_cpu_list_is_refused_with_the_cpus_there_are(text: str, part_of_message: str) -> None:
    with pytest.raises(UsageError, match=part_of_message) as caught:
        parse_cpus(text, ALLOWED)
    assert caught.value.hint is not None
    assert "0-3,6-7" in caught.value.hint or "once" in caught.value.hint


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_cpu_list_survives_writing_and_reading(cpus: set[int]) -> None:
    assert parse_cpus(format_cpus(list(cpus)), tuple(cpus)) == tuple(sorted(cpus))
