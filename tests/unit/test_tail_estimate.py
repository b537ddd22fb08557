"""Tails of made-up series whose truth is known: the short form of ``benchmarks/tails.py``, with fixed seeds."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from command import make_command
from documents import hold_against_schema
from numpy.typing import NDArray
from scipy import special, stats
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.tails import checks
from stealtime.report.tails.estimate import Estimate, estimate_tail
from stealtime.report.tails.fits import fit_extreme, fit_pareto, pareto_level, pareto_region
from stealtime.report.tails.series import TailSeries

COUNT, EVENTS_PER_S = 4_000, 100.0
Array = NDArray[np.float64]


def exponential(seed: int, count: int = COUNT) -> Array:
    return 2000 + 1000 * np.random.default_rng(seed).standard_exponential(count)


def estimated(values: Array, host_hit: NDArray[np.bool_] | None = None) -> Estimate:
    return estimate_tail(TailSeries(values, EVENTS_PER_S, 0.5, host_hit))


def reasons(estimate: Estimate) -> str:
    return "; ".join(estimate.refused_because)


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2])
def test_the_interval_holds_the_level_of_a_known_tail(shape: float) -> None:
    draws = np.random.default_rng([7, round(10 * shape) + 10]).standard_exponential(COUNT)
    values = 2000 + 1000 * (draws if shape == 0 else np.expm1(shape * draws) / shape)
    found = estimated(values)
    assert found.refused_because == ()
    for level in found.levels:
        exponent = -math.log(level.per_event)
        truth = 2000 + 1000 * (exponent if shape == 0 else math.expm1(shape * exponent) / shape)
        assert level.low_ns <= truth <= (level.high_ns or math.inf)
        assert level.low_ns <= level.level_ns
        assert level.least_ns <= level.level_ns <= level.most_ns


def test_a_probability_of_an_hour_is_that_of_all_its_values() -> None:
    levels = estimated(exponential(3)).levels
    assert [one.per_hour for one in levels] == [1e-1, 1e-3, 1e-6]
    for one in levels:
        # 100 values a second; that not one of an hour's exceeds is the product of all.
        assert 1 - (1 - one.per_event) ** 360_000 == pytest.approx(one.per_hour, rel=1e-6)
        assert one.beyond_watched == pytest.approx(1 / (one.per_event * COUNT))


def test_a_level_within_what_was_seen_is_a_quantile_of_it() -> None:
    # 3.6 values an hour: one that a tenth of all hours see is the 3rd in a hundred, of the longest 5 %.
    values = exponential(6)
    (level,) = (one for one in estimate_tail(TailSeries(values, 0.001, 0.5)).levels if one.per_hour == 0.1)
    assert level.level_ns == pytest.approx(np.quantile(values, 1 - level.per_event), rel=0.03)
    assert level.low_ns < level.level_ns < (level.high_ns or math.inf)


def test_the_same_seed_gives_the_same_estimate() -> None:
    assert estimated(exponential(4)) == estimated(exponential(4))


@pytest.mark.parametrize("seed", [2, 3])
def test_a_rare_component_of_the_host_is_refused(seed: int) -> None:
    values = exponential(seed, 40_000)
    hit = np.random.default_rng([seed, 9]).random(len(values)) < 1e-4
    assert hit.sum() > 0
    values[hit] += 50_000 * (1 + np.random.default_rng([seed, 8]).standard_exponential(int(hit.sum())))
    found = estimated(values)
    assert "the longest values are of one kind with the others" in reasons(found)
    assert found.levels == ()


def test_who_saw_the_host_interfere_names_it() -> None:
    values = exponential(5)
    hit = np.zeros(COUNT, np.bool_)
    hit[np.argsort(values)[-12::2]] = True
    hit[:10] = True
    assert "6 of the 200 longest were hit" in reasons(estimated(values, hit))
    # As often as elsewhere is no reason.
    anywhere = np.random.default_rng(6).random(COUNT) < 0.1
    assert estimated(values, anywhere).refused_because == ()


def test_values_that_come_together_are_refused() -> None:
    noise = np.random.default_rng(2).standard_normal(COUNT) * 0.6
    scores = np.zeros(COUNT)
    for index in range(1, COUNT):
        scores[index] = 0.8 * scores[index - 1] + noise[index]
    values = 2000 - 1000 * np.log(special.ndtr(-scores))
    assert "long values do not come together" in reasons(estimated(values))


def test_a_level_that_moves_is_refused() -> None:
    assert "(KPSS)" in reasons(estimated(exponential(1) * np.linspace(1, 2, COUNT)))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (exponential(1, 999), "there are 999 values, and fewer than 1000"),
        (np.round(exponential(1) / 500) * 500, "the clock, with steps of 0.5 ns, is too coarse"),
    ],
)
def test_what_cannot_have_a_tail_is_refused(values: Array, reason: str) -> None:
    found = estimated(values)
    assert reason in reasons(found)
    assert (found.checks, found.levels) == ((), ())


def test_fits_find_the_parameters_that_samples_were_drawn_with() -> None:
    generator = np.random.default_rng(1)
    draws = generator.standard_exponential((20, 2_000))
    excesses = np.sort(np.expm1(0.2 * draws) / 0.2, axis=1)
    fit = fit_pareto(excesses)
    assert -fit.k.mean() == pytest.approx(0.2, abs=0.03)
    assert fit.scale.mean() == pytest.approx(1.0, abs=0.03)
    # A tenth of them is not looked at, and the fit does not lean to either side for it.
    censored = fit_pareto(excesses, censored=200)
    assert -censored.k.mean() == pytest.approx(0.2, abs=0.06)
    maxima = np.sort(stats.genextreme.rvs(-0.2, 100, 10, size=(20, 2_000), random_state=2), axis=1)
    extreme = fit_extreme(maxima)
    for found, truth in ((extreme.shape, 0.2), (extreme.location, 100.0), (extreme.scale, 10.0)):
        assert found.mean() == pytest.approx(truth, abs=0.3 if truth > 1 else 0.03)


def test_a_fit_gives_back_the_probability_of_its_levels() -> None:
    excesses = np.sort(np.random.default_rng(3).standard_exponential(300))[None, :]
    fit = fit_pareto(excesses)
    level = pareto_level(fit, 1e-4)
    assert math.exp(float(fit.log_survival(level[:, None])[0, 0])) == pytest.approx(1e-4)
    low, high = pareto_region(excesses[0], 0.95).interval(1e-4)
    assert low < float(level[0]) < (high or math.inf)


def test_the_level_test_has_the_published_critical_values() -> None:
    # Kwiatkowski and others 1992, table 1, level stationarity; the statistic of scores is found by scaling a series.
    rejected = [checks.kpss(np.random.default_rng(seed).standard_normal(200)) < 0.05 for seed in range(1_000)]
    assert sum(rejected) / 1_000 == pytest.approx(0.05, abs=0.02)


def test_show_prints_the_longest_value_first_and_validates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    stealtime = make_command(monkeypatch, capsys)
    cell = SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 4_000)
    write_synthetic_run(Path("run"), cells=[cell])
    ended = stealtime("show", "run", "--tails")
    assert ended.code == 4
    out = " ".join(ended.out.split())
    assert "native, alone, wakeup 1ms: longest of 4,000 in 4 s: 410.0 µs no estimate: " in out
    document = json.loads(stealtime("show", "run", "--tails", "--json").out)
    hold_against_schema(document, "tails")
    assert document["cells"][0]["longest_ns"] == pytest.approx(410_000, abs=1)
    assert stealtime("show", "run", "--tails", "--accept", "rhel-rt").code == 2
