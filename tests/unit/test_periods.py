"""Periods of several repetitions: who agrees, and what is only two others that meet."""

from typing import TYPE_CHECKING

import pytest

from stealtime.studies.latency.analysis.periods import join_periods

if TYPE_CHECKING:
    from stealtime._core import PeriodDict


def period(period_ms: float, cost_us: float = 3.0, lost_share: float = 0.1) -> "PeriodDict":
    return {
        "period_s": period_ms / 1e3, "rate_hz": 1e3 / period_ms, "cost_p50_ns": cost_us * 1e3,
        "cost_p90_ns": cost_us * 1.2e3, "events": 500, "coverage": 0.9, "lost_share": lost_share, "level_ns": 1e3,
    }  # fmt: skip


def lengths_ms(*repetitions: list["PeriodDict"]) -> list[tuple[float, int]]:
    joined = join_periods(list(enumerate(repetitions, start=1)))
    assert all(one.searched_repetitions == len(repetitions) for one in joined)
    return [(round(one.period_s * 1e3, 2), one.found_in_repetitions) for one in joined]


def test_what_takes_most_comes_first_unless_few_repetitions_show_it() -> None:
    tick, pause = period(4.0, lost_share=0.02), period(100.0, cost_us=8e4, lost_share=0.97)
    # In one of four the pause was not found: it is still what takes most.
    assert lengths_ms([tick, pause], [tick, pause], [tick], [pause, tick]) == [(100.0, 3), (4.0, 4)]


def test_what_fewer_than_half_of_the_repetitions_show_comes_last() -> None:
    chance = period(7.3, lost_share=0.5)
    assert lengths_ms([period(4.0), chance], [period(4.0001)], [period(3.9999)]) == [(4.0, 3), (7.3, 1)]
    assert lengths_ms([], []) == []


def test_figures_are_those_of_the_first_repetition_that_has_it() -> None:
    (one,) = join_periods([(1, []), (2, [period(4.0, cost_us=3.0)]), (5, [period(4.0, cost_us=9.0)])])
    assert (one.repetition, one.cost_p50_ns, one.found_in_repetitions) == (2, 3e3, 2)


@pytest.mark.parametrize("cost_us", [3.0, 5.0, 7.0])
def test_a_multiple_of_two_known_periods_is_no_third(cost_us: float) -> None:
    both = [period(4.0), period(10.0)]
    assert lengths_ms([*both, period(20.0, cost_us)]) == [(4.0, 1), (10.0, 1)]
    # Also where no single repetition shows all three.
    assert lengths_ms([period(4.0), period(20.0, cost_us)], [period(4.0), period(10.0)]) == [(4.0, 2), (10.0, 1)]


def test_what_costs_more_than_both_or_is_a_multiple_of_one_alone_stays() -> None:
    both = [period(4.0), period(10.0)]
    assert lengths_ms([*both, period(20.0, cost_us=50.0)]) == [(4.0, 1), (10.0, 1), (20.0, 1)]
    assert lengths_ms([period(4.0), period(12.0, cost_us=7.0)]) == [(4.0, 1), (12.0, 1)]
    # After some hundred cycles a rate is not known well enough to say of a period that it is no multiple.
    assert len(lengths_ms([period(1.0), period(3.3), period(990.0)])) == 3
    # Every fourth tick is dearer, and every sixteenth: one clock, not two that meet.
    one_clock = [period(1.0), period(4.0), period(16.0)]
    assert [length for length, _ in lengths_ms(one_clock)] == [1.0, 4.0, 16.0]
