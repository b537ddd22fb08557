"""Rare stalls and what is lost show where percentiles are deaf, by a threshold that favours neither run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run
from truth import repetitions

from stealtime._core import Series
from stealtime.report.comparing import compare
from stealtime.report.comparison import CellComparison, StatisticComparison
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.compare_stalls import (
    CUTS,
    Cut,
    Side,
    StallsComparison,
    compare_stalls,
    find_threshold,
)
from stealtime.studies.latency.analysis.model import HeldBack, Stalls
from stealtime.studies.latency.analysis.stalls import KEPT, find_stalls
from stealtime.studies.latency.analysis.summary import summarize, to_stats

RARE = Cut("rare_stalls", 6, 12)
LOOP_NS = 100_000
STALLED, EQUAL = repetitions(few=10, full=40), repetitions(few=40, full=200)
"""Pairs of runs, of which one has stalls, and of equal ones."""
TRIALS = 7


def cells_with(stalls_ns: list[float], cell: SyntheticCell) -> list[SyntheticCell]:
    """A cell a stall: one repetition each."""
    return [replace(cell, worst_ns=one, repetition=number) for number, one in enumerate(stalls_ns, start=1)]


def compared(folder: Path, a_ns: list[float], b_ns: list[float], cell: SyntheticCell) -> CellComparison:
    for name, stalls_ns, seed in (("a", a_ns, 1), ("b", b_ns, 2)):
        write_synthetic_run(folder / name, seed=seed, cells=cells_with(stalls_ns, cell))
    (found,) = compare(Run.open(folder / "a"), Run.open(folder / "b")).cells
    return found


TICK = SyntheticCell("uml", "tick", {"loop_ns": 68_000}, 68_000.0, 0.0, 0.4, 20_000)


def test_a_stall_of_5_ms_in_each_trial_is_found_by_counting(tmp_path: Path) -> None:
    found = compared(tmp_path, [90_000.0] * TRIALS, [5e6] * TRIALS, TICK)
    verdicts = {one.statistic: one.verdict for one in found.statistics}
    assert (verdicts["rare_stalls"], verdicts["mean_overhead_ns"]) == ("higher", "higher")
    assert verdicts["floor_ns"] == "no difference shown"
    (rare,) = (one for one in found.statistics if one.statistic == "rare_stalls")
    assert isinstance(rare, StallsComparison)
    assert (rare.a_count, rare.b_count) == (0, TRIALS)
    assert rare.threshold_ns is not None
    assert 22_000.0 < rare.threshold_ns < 5e6
    assert (rare.ratio, rare.ratio_high, rare.less_than) == (None, None, None)
    assert rare.ratio_low is not None
    assert rare.ratio_low > 1.0
    assert rare.words[0].startswith("over ")


def test_where_no_difference_is_shown_the_verdict_says_what_it_could_have_missed(tmp_path: Path) -> None:
    found = compared(tmp_path, [90_000.0] * TRIALS, [91_000.0] * TRIALS, TICK)
    same = [one for one in found.statistics if one.verdict == "no difference shown"]
    assert len(same) > 5
    for one in same:
        assert one.less_than is not None
        assert one.ratio_low is not None
        assert one.ratio_high is not None
        assert one.less_than == pytest.approx(max(one.ratio_high, 1 / one.ratio_low))
        assert one.less_than >= 1.0
        assert one.verdict_words.startswith("no difference shown (less than ")
    assert all(one.less_than is None for one in found.statistics if one.verdict != "no difference shown")


def test_a_trial_under_a_limit_leaves_out_what_may_be_its_pause(tmp_path: Path) -> None:
    for findings, left_out in (((RT_THROTTLING,), 1), ((), 0)):
        cell = replace(TICK, platform="native", worst_ns=50e6, findings=findings)
        folder = tmp_path / str(left_out)
        write_synthetic_run(folder, cells=[cell])
        (trial,) = summarize(Run.open(folder)).cells[0].trials
        assert trial.stalls is not None
        assert (trial.stalls.left_out, trial.stalls.longest_ns[0] < 1e6) == (left_out, left_out == 1)


def test_the_threshold_lies_in_the_widest_gap_whoever_the_samples_are_of() -> None:
    stalls_ns = [5.1e6] * TRIALS + [2.0e6 / number for number in range(1, 100)]
    threshold_ns = find_threshold(stalls_ns, RARE)
    assert threshold_ns is not None
    assert 2.0e6 < threshold_ns < 5.1e6
    shuffled = list(stalls_ns)
    np.random.default_rng(3).shuffle(shuffled)
    assert find_threshold(shuffled, RARE) == threshold_ns


def test_a_threshold_leaves_as_many_beyond_it_as_was_asked_for() -> None:
    draw = np.random.default_rng(4)
    for cut in CUTS:
        for _ in range(50):
            longest_ns = draw.pareto(1.5, 400) * 1e5
            threshold_ns = find_threshold(longest_ns.tolist(), cut)
            assert threshold_ns is not None
            assert cut.fewest <= int((longest_ns > threshold_ns).sum()) <= cut.most
    assert find_threshold([1.0] * RARE.fewest + [0.0] * 10, RARE) is None


def side_of(random: np.random.Generator, *, is_stalled: bool) -> Side:
    """Twelve trials of a host whose stalls come in bursts: in one of eight, of 4 to 25 ms, some at once.

    Where they come in more of them, a stall in each is found more seldom: docs/truth.md has the shares.
    """
    stalls = []
    for _ in range(12):
        longest_ns = list(random.uniform(2e5, 1.5e6, 10))
        if random.random() < 0.125:
            longest_ns += list(random.choice([4.1e6, 5.5e6, 15.6e6, 25.6e6], random.integers(1, 7)))
        if is_stalled:
            longest_ns.append(5.15e6)
        stalls.append(Stalls(lost_s=sum(longest_ns) / 1e9, left_out=0, longest_ns=longest_ns))
    return Side(stalls, [147_000] * 12, [10.0] * 12)


def longest_of(a: Side, b: Side, because: str | None = None) -> StatisticComparison:
    (one,) = [one for one in compare_stalls(a, b, because) if one.statistic == "longest_stalls"]
    return one


@pytest.mark.longer
def test_a_stall_in_each_repetition_is_found_where_others_come_in_bursts() -> None:
    random = np.random.default_rng(5)

    def verdict(*, is_stalled: bool) -> str:
        return longest_of(side_of(random, is_stalled=False), side_of(random, is_stalled=is_stalled)).verdict

    assert [verdict(is_stalled=True) for _ in range(STALLED)].count("higher") >= 0.9 * STALLED
    of_equal = [verdict(is_stalled=False) for _ in range(EQUAL)]
    assert of_equal.count("higher") + of_equal.count("lower") <= 0.01 * len(of_equal)


def test_longest_stalls_are_told_by_their_medians() -> None:
    random = np.random.default_rng(6)
    pair = side_of(random, is_stalled=False), side_of(random, is_stalled=True)
    name, _, b = longest_of(*pair).words
    assert (name, b) == ("longest stalls", "5.150 ms")
    none = longest_of(*pair, "there are two")
    assert (none.verdict, none.because, none.words[0]) == ("not judged", "there are two", "longest stalls")


def stalls_of(stalls: dict[float, float], held_back: HeldBack | None = None) -> tuple[float, list[float], int]:
    """What is found in 2 s of loops, of which those at some seconds last some ms longer."""
    durations = np.full(2 * 1_000_000_000 // LOOP_NS, LOOP_NS, dtype=np.uint32)
    for at_s, stall_ms in stalls.items():
        durations[round(at_s * 1e9 / LOOP_NS)] += round(stall_ms * 1e6)
    series = Series(durations, None, None, None, None, None, "tiled", None, 1e9, None)
    found = find_stalls(series, to_stats(series.summary()), 1e9, held_back)
    return found.lost_s, found.longest_ns, found.left_out


def test_what_a_trial_lost_is_the_time_over_its_floor() -> None:
    lost_s, longest_ns, left_out = stalls_of({0.5: 5.0, 1.0: 0.4, 1.5: 2.0})
    assert lost_s == pytest.approx(7.4e-3)
    assert longest_ns[:4] == pytest.approx([5e6, 2e6, 0.4e6, 0.0])
    assert (len(longest_ns), left_out) == (KEPT, 0)


def test_what_may_be_a_pause_is_left_out_of_both() -> None:
    limit = HeldBack(
        cause="RT throttling", pause_ns=50e6, count=1, longest_ns=50e6, rest_max_ns=None, rest_max_overhead_ns=None,
        rest_max_at_s=None,
    )  # fmt: skip
    lost_s, longest_ns, left_out = stalls_of({0.5: 50.0, 0.7: 30.0, 1.0: 5.0}, limit)
    assert lost_s == pytest.approx(5e-3)
    assert longest_ns[:2] == pytest.approx([5e6, 0.0])
    assert (len(longest_ns), left_out) == (KEPT, 2)
