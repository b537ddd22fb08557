"""What a run saw of a machine's CPU: all trials count, each with all its gaps, by trying every window."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stealtime._core import Series
from stealtime.schedulability.supply import observed_supply
from stealtime.studies.latency.analysis import supply as module
from stealtime.studies.latency.analysis.supply import observed_services
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.service import Observation, ObservedService

FLOOR_NS = 50


def trial(*durations_ns: int, platform: str = "native", probe: str = "tick", pauses: int = 0) -> Any:
    """A trial whose turns took so long, one unit of its clock a nanosecond."""
    durations = np.array(durations_ns, np.uint32)
    outcome = SimpleNamespace(counters={"pauses": pauses}, clock=SimpleNamespace(units_per_s=1e9))
    cell = SimpleNamespace(probe=probe, platform=platform, scenario="alone")
    series = Series(durations, None, None, None, None, None, "tiled", None, 1e9, None)
    return SimpleNamespace(record=SimpleNamespace(has_result=True, cell=cell, outcome=outcome), series=series)


@pytest.fixture(autouse=True)
def made_up_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_series", lambda one: one.series)


def services(*trials: Any) -> list[ObservedService]:
    return observed_services(cast("Any", SimpleNamespace(trials=list(trials))))


def window_for(service: ObservedService, needed_ns: int) -> int:
    """Give the shortest window in which so much is certain, from the points that the analysis gets."""
    points = observed_supply(service).for_core()["points"]
    window, served = next(point for point in points if point[1] >= needed_ns)
    return window - (served - needed_ns)


def test_the_longest_gap_of_any_trial_counts_whichever_got_least() -> None:
    turn = [FLOOR_NS] * 200
    # The first loses more in all, 20 gaps of 2 us; the second stands still for 55 us once.
    often = trial(*[*turn, FLOOR_NS + 2_000] * 20)
    once = trial(*turn * 40, FLOOR_NS + 55_000, *turn * 40)
    (both,) = services(often, once)
    (alone,) = services(often)
    assert window_for(alone, 1) == 2_000 + 1
    assert window_for(both, 1) == 55_000 + 1
    assert "2 trials, together" in observed_supply(both).text
    assert both.least_served_share == pytest.approx(alone.least_served_share)


def test_no_gap_is_left_out_however_many_there_are() -> None:
    # A gap every 2 us: of 6,000 all count, or the longest of windows would be served more than it was.
    turns = np.where(np.arange(12_000) % 2, FLOOR_NS + 1_500, FLOOR_NS)
    (found,) = services(trial(*turns.tolist()))
    (one,) = found.observations
    assert len(one.begin_ns) == 6_000
    window, served = observed_supply(found).for_core()["points"][-1]
    assert (window, served) == (one.observed_ns, 12_000 * FLOOR_NS)


def test_where_in_its_turn_a_gap_was_is_taken_at_its_worst() -> None:
    # Two turns of 50 ns of work in a row: the gap of the first may have been last in it, that of the second first.
    (found,) = services(trial(50, 50, 50 + 3_000, 50 + 4_000, 50, 50))
    assert window_for(found, 1) == 7_000 + 1
    # A third one: the second and it may meet, or 50 ns of the second lie between the first two and it.
    (found,) = services(trial(50, 50, 50 + 3_000, 50 + 4_000, 50 + 3_500, 50, 50))
    assert [window_for(found, needed) for needed in (1, 51)] == [7_501, 10_551]


def test_machines_are_apart_and_what_was_paused_or_is_no_tick_is_not_taken() -> None:
    found = services(
        trial(50, 9_000, 50),
        trial(50, 50, 50, platform="qemu-tcg-paravirt"),
        trial(50, 99_000, 50, probe="wakeup"),
        trial(50, 99_000, 50, pauses=2),
    )
    assert [(one.machine, len(one.observations)) for one in found] == [("native", 1), ("qemu-tcg-paravirt", 1)]
    assert found[0].without == "without gaps under 1 us; 1 more were paused now and then, and do not count"
    assert "paused" not in found[1].without


def test_a_machine_that_got_nothing_at_all_is_refused_in_words() -> None:
    gap = Observation(10, np.array([0], np.uint64), np.array([10], np.uint64))
    with pytest.raises(StealtimeError, match="nothing was served"):
        observed_supply(ObservedService("guest", [gap], "")).for_core()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([50, 50, 50, 1_100, 2_500]), min_size=2, max_size=12), min_size=1, max_size=4),
    st.data(),
)
def test_never_more_is_claimed_than_any_window_of_any_trial_got(
    all_turns: list[list[int]], data: st.DataObject
) -> None:
    trials = [trial(50, *turns) for turns in all_turns]
    (found,) = services(*trials)
    points = dict(observed_supply(found).for_core()["points"])
    for turns in all_turns:
        # By nanosecond; a gap may be anywhere in its turn.
        line = [np.ones(FLOOR_NS, np.int64)]
        for turn in turns:
            one = np.ones(turn, np.int64)
            if turn > FLOOR_NS:
                place = data.draw(st.integers(0, FLOOR_NS))
                one[place : place + turn - FLOOR_NS] = 0
            line.append(one)
        sums = np.concatenate([[0], np.cumsum(np.concatenate(line))])
        for window, claimed in points.items():
            if window < len(sums):
                assert claimed <= (sums[window:] - sums[: len(sums) - window]).min()
