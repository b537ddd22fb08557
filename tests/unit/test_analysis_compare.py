"""Two runs of the same machine are rarely called different, whatever day it is, and a real shift is seen."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import truth
from rich.console import Console
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.comparing import compare
from stealtime.report.comparison import Comparison
from stealtime.report.interval import (
    REPETITIONS_MIN,
    SESSION_SHARE,
    interval_of_repetitions,
    ratio_by_ranks,
    ratio_of_repetitions,
)
from stealtime.report.terminal.comparison import render_comparison
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.compare import FLOOR, STATISTICS, LatencyComparison

LOSSES = ("mean_overhead_ns", "frequent_stalls", "stalls", "rare_stalls", "longest_stalls", "recurring_stalls")
REPEATS = truth.repetitions(few=100, full=400)
WRONG_MAX = truth.wrong_at_most(0.05, REPEATS)
LEVEL = (1.0, 1.01, 0.99, 1.005, 0.995)
"""What five repetitions of one machine are to each other."""


def sessions(seed: int, repetitions: int, session_share: float, count: int = REPEATS) -> Any:
    """Pairs of equal runs, shape (pairs, 2, repetitions): repetitions scatter, and whole runs scatter too."""
    random = np.random.default_rng(seed)
    within = random.standard_normal((count, 2, repetitions))
    between = np.sqrt(session_share) * random.standard_normal((count, 2, 1))
    return np.exp(0.05 * (within + between))


@pytest.mark.longer
@pytest.mark.parametrize("session_share", [0.0, SESSION_SHARE])
@pytest.mark.parametrize("repetitions", [REPETITIONS_MIN, 10, 40])
def test_equal_runs_of_different_sessions_are_called_different_in_5_percent(
    repetitions: int, session_share: float
) -> None:
    pairs = sessions(13, repetitions, session_share)
    found = [ratio_of_repetitions(list(a), list(b), same_session=False) for a, b in pairs]
    assert sum(not ratio.low <= 1.0 <= ratio.high for ratio in found) <= WRONG_MAX


@pytest.mark.longer
@pytest.mark.parametrize("repetitions", [REPETITIONS_MIN, 10, 40])
def test_equal_runs_are_called_different_by_ranks_in_5_percent(repetitions: int) -> None:
    found = [ratio_by_ranks(list(a), list(b)) for a, b in sessions(17, repetitions, SESSION_SHARE)]
    assert sum(not ratio.low <= 1.0 <= ratio.high for ratio in found) <= WRONG_MAX


def test_a_tenth_more_is_found_by_ranks_though_single_repetitions_are_far_off() -> None:
    calm = [68.1, 68.2, 68.1, 68.3, 68.1, 68.1, 75.0, 68.2, 68.1, 69.0]
    slower = [1.1 * one for one in calm[:-1]] + [140.0]
    found = ratio_by_ranks(calm, slower)
    assert found.value == pytest.approx(1.1, rel=0.01)
    assert 1.0 < found.low < found.high < 1.3
    by_mean = ratio_of_repetitions(calm, slower, same_session=False)
    assert by_mean.low < 1.0, "a mean of logarithms does not see it"


@pytest.mark.longer
def test_sides_that_took_turns_in_one_run_are_told_apart_sooner() -> None:
    pairs = sessions(14, REPETITIONS_MIN, 0.0)
    together = [ratio_of_repetitions(list(a), list(b), same_session=True) for a, b in pairs]
    apart = [ratio_of_repetitions(list(a), list(b), same_session=False) for a, b in pairs]
    assert sum(not ratio.low <= 1.0 <= ratio.high for ratio in together) <= WRONG_MAX
    assert all(one.high < other.high for one, other in zip(together, apart, strict=True))


@pytest.mark.longer
def test_a_figure_of_one_session_holds_in_another() -> None:
    pairs = sessions(15, REPETITIONS_MIN, SESSION_SHARE)
    found = [interval_of_repetitions(list(a)) for a, _ in pairs]
    assert sum(not interval.low <= 1.0 <= interval.high for interval in found) <= WRONG_MAX
    assert np.median([interval.high / interval.low for interval in found]) < 1.5


@pytest.mark.longer
@pytest.mark.parametrize("shift", [1.25, 0.8])
def test_a_shift_of_a_quarter_is_found_over_a_scatter_of_5_percent(shift: float) -> None:
    pairs = sessions(16, REPETITIONS_MIN, SESSION_SHARE)
    found = [ratio_of_repetitions(list(a), list(b * shift), same_session=False) for a, b in pairs]
    seen = sum(ratio.low > 1.0 if shift > 1 else ratio.high < 1.0 for ratio in found)
    assert seen > 0.5 * REPEATS
    assert np.median([ratio.value for ratio in found]) == pytest.approx(shift, rel=0.02)


def test_repetitions_that_agree_to_the_last_unit_are_as_uncertain_as_the_unit() -> None:
    one_unit = ratio_of_repetitions([100.0] * 5, [101.0] * 5, same_session=False, resolution=1.0)
    assert one_unit.low < 1.0 < one_unit.high
    five_units = ratio_of_repetitions([100.0] * 5, [105.0] * 5, same_session=False, resolution=1.0)
    assert five_units.low > 1.0
    assert interval_of_repetitions([100.0] * 5, resolution=1.0).high == pytest.approx(101.0, rel=1e-3)


def write_run(folder: Path, factors: list[float], seed: int, samples: int = 20_000) -> Run:
    cells = [
        SyntheticCell(
            "native", "switch", {"threads": 2}, 180.0 * factor, 90_000.0 * factor, 0.5, samples,
            repetition=repetition,
        )
        for repetition, factor in enumerate(factors, start=1)
    ]  # fmt: skip
    write_synthetic_run(folder, seed=seed, cells=cells)
    return Run.open(folder)


def verdicts(comparison: Comparison) -> dict[str, str]:
    (cell,) = comparison.cells
    assert [statistic.statistic for statistic in cell.statistics] == [FLOOR, *LOSSES, *STATISTICS[1:]]
    return {statistic.statistic: statistic.verdict for statistic in cell.statistics}


def test_a_run_against_itself_shows_no_difference(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", list(LEVEL), 1)
    found = verdicts(compare(run, run))
    assert found["p50_ns"] == found["p99_ns"] == "no difference shown"


def test_samples_of_few_repetitions_do_not_stand_in_for_more(tmp_path: Path) -> None:
    few, enough = list(LEVEL[:3]), list(LEVEL)
    comparison = compare(write_run(tmp_path / "a", few, 1), write_run(tmp_path / "b", [1.5 * x for x in enough], 2))
    assert set(verdicts(comparison).values()) == {"not judged"}
    (cell,) = comparison.cells
    assert {one.because for one in cell.statistics} == {
        "the runs have 3 and 5 valid repetitions, and with fewer than 4 it cannot be told by how much equal ones "
        "differ: measure with --repetitions 4"
    }
    median = cell.statistics[0]
    assert isinstance(median, LatencyComparison)
    assert median.b_ns == pytest.approx(1.5 * (median.a_ns or 0), rel=0.02)
    assert not comparison.is_judged


def test_enough_repetitions_let_the_maximum_be_judged(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", list(LEVEL), 1)
    second = write_run(tmp_path / "b", [1.1 * x for x in LEVEL], 2)
    comparison = compare(first, second)
    found = verdicts(comparison)
    assert (found["p50_ns"], found["max_ns"], found["p99999_ns"]) == ("higher", "higher", "not judged")
    assert verdicts(compare(second, first))["max_ns"] == "lower"
    judged = len(comparison.judged)
    assert comparison.different_by_chance == pytest.approx(0.05 * judged)
    assert f"{len(comparison.different)} of {judged} judged figures differ" in printed(comparison)


def test_a_statistic_with_few_samples_beyond_it_needs_trials_of_one_length(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", list(LEVEL), 1)
    second = write_run(tmp_path / "b", list(LEVEL), 2, samples=40_000)
    found = verdicts(compare(first, second))
    # Of 20,000 samples 2 lie beyond the 99.99th percentile, and 20 beyond the 99.9th.
    assert (found["p999_ns"], found["p9999_ns"], found["max_ns"]) == (
        "no difference shown", "not judged", "not judged",
    )  # fmt: skip


def test_loops_that_did_different_work_are_not_compared(tmp_path: Path) -> None:
    runs = [tick_run(tmp_path / str(iterations), iterations) for iterations in (27_000, 27_100)]
    (cell,) = compare(*runs).cells
    assert {one.verdict for one in cell.statistics} == {"not judged"}
    assert {one.because for one in cell.statistics} == {
        "the loops did different work, 27000 and 27100 iterations: measure the second run with --loop-of and the name "
        "of the first"
    }
    assert compare(runs[0], runs[0]).is_judged


def tick_run(folder: Path, iterations: int) -> Run:
    cells = [
        SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0 * factor, 3e6, 0.5, 20_000, repetition=number)
        for number, factor in enumerate(LEVEL, start=1)
    ]
    write_synthetic_run(folder, cells=cells)
    for path in folder.glob("cells/*/trial.json"):
        document = json.loads(path.read_text())
        document["outcome"]["request"]["probe"]["iterations"] = iterations
        path.write_text(json.dumps(document))
    return Run.open(folder)


def printed(comparison: Comparison) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_comparison(comparison))
    return console.export_text()


def test_cells_that_only_one_run_has_are_listed(tmp_path: Path) -> None:
    other = SyntheticCell("uml", "switch", {"threads": 10}, 180.0, 90_000.0, 0.5, 20_000)
    write_synthetic_run(tmp_path / "b", cells=[other])
    comparison = compare(write_run(tmp_path / "a", [1.0], 1), Run.open(tmp_path / "b"))
    assert (comparison.cells, comparison.is_judged) == ([], False)
    assert comparison.only_in_a == ["native alone switch (threads 2)"]
    assert comparison.only_in_b == ["uml alone switch (threads 10)"]
