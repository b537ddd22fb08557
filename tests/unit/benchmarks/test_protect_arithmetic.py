"""The arithmetic of ``make bench-protect``, on made-up epochs."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurement.bare import stops_us
from measurement.rows import (
    PAUSE_PARTS,
    Row,
    between,
    missed,
    overlapping_share,
    parts_ns,
    phase_share,
    quantile,
    rate_per_s,
    slowdown_percent,
)
from measurement.showing import Figure
from measurement.yardsticks import as_many

from stealtime.protect.epochs import read_epochs

MS = 1_000_000


def epochs(*begins_ms: float, pause_ms: float = 2) -> list[Row]:
    return [{"begin_ns": round(begin * MS), "pause_ns": round(pause_ms * MS)} for begin in begins_ms]


def test_a_row_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "epochs.csv"
    path.write_text("epoch,begin_ns,pause_ns\n1,10,5\n2,20,6\n3,3")
    assert read_epochs(path) == [
        {"epoch": 1, "begin_ns": 10, "pause_ns": 5},
        {"epoch": 2, "begin_ns": 20, "pause_ns": 6},
    ]


def test_epochs_belong_to_the_time_in_which_they_began() -> None:
    assert between(epochs(9, 10, 19, 20), 10 * MS, 20 * MS) == epochs(10, 19)


def test_a_quantile_is_one_of_the_values() -> None:
    numbers = list(range(1, 101))
    assert [quantile(numbers, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([7], 0.99) == 7
    with pytest.raises(ValueError, match="nothing"):
        quantile([], 0.5)


@given(st.lists(st.integers(), min_size=1), st.floats(0, 1))
def test_so_many_values_do_not_exceed_a_quantile(numbers: list[int], share: float) -> None:
    found = quantile(numbers, share)
    assert found in numbers
    # The share times the number of values may be a hair more than a whole number.
    assert sum(number <= found for number in numbers) >= share * len(numbers) - 1e-9


def test_a_rate_is_that_of_whole_intervals() -> None:
    assert rate_per_s(epochs(0, 25, 50, 75, 100)) == 40
    with pytest.raises(ValueError, match="1 epochs"):
        rate_per_s(epochs(5))


def test_late_epochs_are_not_missed_ones() -> None:
    interval_ns = 25 * MS
    assert missed(epochs(0, 25, 50, 75), interval_ns) == 0
    assert missed(epochs(0, 25, 60, 75), interval_ns) == 0  # late, and the next one on time
    assert missed(epochs(0, 25, 75), interval_ns) == 1
    assert missed(epochs(0, 100, 125, 200), interval_ns) == 3 + 2


def test_parts_are_medians() -> None:
    rows = [dict.fromkeys(PAUSE_PARTS, number) for number in (3, 1, 2)]
    assert parts_ns(rows) == dict.fromkeys(PAUSE_PARTS, 2)


def test_pauses_overlap_if_they_share_a_moment() -> None:
    ours = epochs(0, 100, 200, 300, pause_ms=10)
    assert overlapping_share(ours, epochs(5, 195, 310, pause_ms=6)) == 0.5
    assert overlapping_share(ours, []) == 0
    assert math.isnan(overlapping_share([], ours))


def test_a_phase_is_taken_on_the_circle() -> None:
    assert phase_share(epochs(25, 125, 225), 100 * MS) == pytest.approx(0.25)
    around_zero = phase_share(epochs(98, 202, 299, 401), 100 * MS)
    assert min(around_zero, 1 - around_zero) == pytest.approx(0, abs=1e-6)


def test_half_the_speed_is_slower_by_half() -> None:
    assert slowdown_percent(200, 100) == 50
    assert slowdown_percent(200, 210) == pytest.approx(-5)


def test_a_stop_lasts_until_the_next_resume() -> None:
    def event(name: str, at_us: int) -> dict[str, object]:
        return {"event": name, "timestamp": {"seconds": at_us // 10**6, "microseconds": at_us % 10**6}}

    told = [("RESUME", 1), ("STOP", 999_990), ("MIGRATION", 999_995), ("RESUME", 1_000_010), ("STOP", 2_000_000)]
    assert stops_us([event(*one) for one in told]) == [20]


def test_a_median_is_held_against_its_target() -> None:
    assert Figure("pause", "ms", [1, 2, 9], at_most=2).verdict() == "kept: <= 2"
    assert Figure("pause", "ms", [1, 2.1, 9], at_most=2).verdict() == "MISSED: <= 2"
    assert Figure("rate", "/s", [39], at_least=40).verdict() == "MISSED: >= 40"
    assert Figure("rate", "/s", [39]).verdict() == ""


@given(st.sets(st.integers(0, 199)), st.integers(1, 200))
def test_pages_are_thinned_out_or_filled_up_with_others(written: set[int], count: int) -> None:
    pages = np.array(sorted(written), dtype=np.intp)
    chosen = as_many(pages, count, of=200)
    assert len(chosen) == count
    assert (np.diff(chosen) > 0).all()
    assert set(chosen.tolist()) <= written or written <= set(chosen.tolist())


def test_pages_are_filled_up_with_their_neighbours() -> None:
    pages = np.array([10, 50], dtype=np.intp)
    assert as_many(pages, 6, of=100).tolist() == [9, 10, 11, 49, 50, 51]
