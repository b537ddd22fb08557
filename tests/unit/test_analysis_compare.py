"""Two runs of the same machine are rarely called different, and a real shift is seen."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from stealtime.analysis.compare import STATISTICS, Comparison, compare
from stealtime.analysis.interval import Interval, quantile_interval, ratio_between_trials, ratio_of_intervals
from stealtime.store.run import Run
from synthetic_run import SyntheticCell, write_synthetic_run

REPEATS = 200
WRONG_MAX = 20
"""Of 200 comparisons at 95 %, 10 are expected to be wrong; more than 20 are 1 in 500."""


def dependent(random: np.random.Generator, count: int, scale: float = 1.0) -> NDArray[np.uint32]:
    """Samples of which each resembles the one before (correlation 0.9)."""
    noise = lfilter([1.0], [1.0, -0.9], random.standard_normal(count)) * np.sqrt(1 - 0.9**2)
    samples: NDArray[np.uint32] = (np.exp(0.3 * noise) * 1e5 * scale).astype(np.uint32)
    return samples


def compare_samples(first: NDArray[np.uint32], second: NDArray[np.uint32], tail: int) -> Interval:
    return ratio_of_intervals(quantile_interval([first], tail), quantile_interval([second], tail))


@pytest.mark.parametrize("tail", [2, 20])
def test_equal_trials_of_dependent_samples_are_called_different_in_5_percent(tail: int) -> None:
    random = np.random.default_rng(11)
    intervals = [compare_samples(dependent(random, 8_000), dependent(random, 8_000), tail) for _ in range(REPEATS)]
    wrong = sum(not interval.low <= 1.0 <= interval.high for interval in intervals)
    assert wrong <= WRONG_MAX
    # An interval that ignored the dependence would be wrong in half of the cases; one that is never wrong is too wide.
    assert np.median([interval.high - interval.low for interval in intervals]) < 0.2


def test_a_shift_of_10_percent_is_found() -> None:
    random = np.random.default_rng(12)
    intervals = [compare_samples(dependent(random, 20_000), dependent(random, 20_000, 1.1), 2) for _ in range(50)]
    assert sum(interval.low > 1.0 for interval in intervals) >= 48
    assert np.median([interval.value for interval in intervals]) == pytest.approx(1.1, abs=0.01)


@pytest.mark.parametrize("trials", [3, 5, 10])
def test_equal_sets_of_trials_are_called_different_in_5_percent(trials: int) -> None:
    random = np.random.default_rng(13)
    drawn = np.exp(0.05 * random.standard_normal((REPEATS, 2, trials)))
    intervals = [ratio_between_trials(list(pair[0]), list(pair[1])) for pair in drawn]
    assert sum(not interval.low <= 1.0 <= interval.high for interval in intervals) <= WRONG_MAX


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
    assert [statistic.statistic for statistic in cell.statistics] == list(STATISTICS)
    return {statistic.statistic: statistic.verdict for statistic in cell.statistics}


def test_a_run_against_itself_shows_no_difference(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1.0], 1)
    found = verdicts(compare(run, run))
    assert found["p50_ns"] == found["p99_ns"] == "no difference shown"


def test_what_one_trial_cannot_show_is_not_judged(tmp_path: Path) -> None:
    comparison = compare(write_run(tmp_path / "a", [1.0], 1), write_run(tmp_path / "b", [1.1], 2))
    found = verdicts(comparison)
    assert (found["p50_ns"], found["max_ns"], found["p9999_ns"]) == ("higher", "not judged", "not judged")
    by_name = {statistic.statistic: statistic for statistic in comparison.cells[0].statistics}
    assert "3 repetitions" in str(by_name["max_ns"].because)
    assert "only 2 samples" in str(by_name["p9999_ns"].because)
    assert "trial to trial is not seen" in str(by_name["p50_ns"].method)
    assert by_name["p50_ns"].ratio == pytest.approx(1.1, rel=0.02)
    assert comparison.is_judged


def test_three_repetitions_let_the_maximum_be_judged(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [1.0, 1.01, 0.99], 1)
    second = write_run(tmp_path / "b", [1.11, 1.09, 1.1], 2)
    found = verdicts(compare(first, second))
    assert (found["p50_ns"], found["max_ns"], found["p99999_ns"]) == ("higher", "higher", "not judged")
    assert verdicts(compare(second, first))["max_ns"] == "lower"


def test_maxima_of_trials_of_other_lengths_are_not_judged(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [1.0, 1.01, 0.99], 1)
    second = write_run(tmp_path / "b", [1.0, 1.01, 0.99], 2, samples=40_000)
    assert verdicts(compare(first, second))["max_ns"] == "not judged"


def test_cells_that_only_one_run_has_are_listed(tmp_path: Path) -> None:
    other = SyntheticCell("uml", "switch", {"threads": 10}, 180.0, 90_000.0, 0.5, 20_000)
    write_synthetic_run(tmp_path / "b", cells=[other])
    comparison = compare(write_run(tmp_path / "a", [1.0], 1), Run.open(tmp_path / "b"))
    assert (comparison.cells, comparison.is_judged) == ([], False)
    assert comparison.only_in_a == ["native alone switch (threads 2)"]
    assert comparison.only_in_b == ["uml alone switch (threads 10)"]
