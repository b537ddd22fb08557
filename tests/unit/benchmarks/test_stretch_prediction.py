"""What ``stretch_prediction.py`` draws, counts and judges."""

import math
import random
from typing import Any

import numpy as np
import pytest
from co_located.judging import (
    Case,
    beyond_floor,
    cases,
    conformal_factor,
    covered_share,
    mae_of_p_points,
    mape_percent,
    noise_floor,
    predictions,
    ratios,
    water_filling,
    with_constant,
)
from co_located.live import live_cases, wanted_s
from co_located.measuring import Times, same_work_s
from co_located.mixes import PIECES, POOLS, SLOTS, mixes
from co_located.verdict import document, live_toml_of, tables, toml_of

from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.sharing import Work

COUNT = 13


def test_each_mix_is_drawn_once_and_all_work_is_in_some() -> None:
    for pool in POOLS:
        drawn = mixes(pool, COUNT)
        assert drawn == mixes(pool, COUNT)
        assert drawn != mixes(pool, COUNT, seed=1)
        assert len(drawn) == COUNT
        assert mixes(pool, 4) == drawn[:4]
        alike = {
            tuple(sorted((SLOTS.index(SLOTS[slot]), piece) for slot, piece in one.pieces.items())) for one in drawn
        }
        assert len(alike) == len(drawn)
    everywhere = {piece for pool in POOLS for one in mixes(pool, COUNT) for piece in one.pieces.values()}
    assert everywhere == set(PIECES)


def times(*rows: tuple[int, int, int]) -> Times:
    tasks, starts, durations = (np.array(column) for column in zip(*rows, strict=True))
    return Times(tasks, starts, durations)


def test_the_same_iterations_are_compared_that_were_done_alone_and_beside_others() -> None:
    alone = times((0, 0, 10), (0, 10, 20), (0, 30, 10), (0, 40, 10), (1, 0, 50))
    beside = times((0, 0, 9), (0, 12, 40), (0, 52, 20), (0, 72, 25), (1, 0, 90))
    # The first iteration of each task began too early, and the last one of the first task ended too late.
    assert same_work_s(alone, beside, 2, 100.0) == pytest.approx((30e-9, 60e-9))
    nothing = times((0, 0, 99))
    assert same_work_s(nothing, nothing, 1, 100.0) == (0.0, 0.0)


def test_an_interval_holds_the_wished_share_of_what_it_was_found_on() -> None:
    ratios_found = [1.0, 1.1, 0.9, 1.05, 1.2, 1.0, 1.0, 1.0, 1 / 1.3]
    assert conformal_factor(ratios_found) == pytest.approx(1.3)
    assert conformal_factor(ratios_found, 0.8) == pytest.approx(1.2)
    assert conformal_factor(ratios_found[:8]) is None
    found = [Case(str(number), POOLS[0], "cpu", (one,), {"model": 1.0}) for number, one in enumerate(ratios_found * 3)]
    # Each by the intervals of all others: the farthest of all three are inside by each other.
    assert covered_share(found, "model", found) == pytest.approx(1.0)
    assert covered_share(found[:9], "model", found[:9]) is None
    odd = [*found, Case("odd", POOLS[0], "cpu", (2.0,), {"model": 1.0})]
    assert covered_share(odd[-1:], "model", odd) == pytest.approx(0.0)
    assert conformal_factor([math.exp(0.01 * number) for number in range(99)]) == pytest.approx(math.exp(0.89))


def guest(piece: str, stretch: float, run_s: float) -> dict[str, Any]:
    """Give one of a mix, which alone fills its CPU, and beside the others runs for ``run_s`` of five seconds."""
    about = {"elapsed_s": 5.0, "iterations": 100, "io_asked_s": 0.0, "vcpu_threads": 1}
    return {
        "piece": piece, "same_alone_s": 1.0, "same_s": stretch,
        "alone": {**about, "cpu_s": 5.0, "cost_s": 5.0, "host_run_s": 5.0, "wait_s": 0.0},
        "beside": {**about, "cpu_s": run_s, "cost_s": run_s, "host_run_s": run_s, "wait_s": 5.0 - run_s},
    }  # fmt: skip


def measured(platform: str = "uml") -> list[dict[str, Any]]:
    """Give mixes of two busy guests on one CPU that fare as they must, but for the last two."""
    lines = []
    for number in range(7):
        # The last one is 25 % faster than two that share a CPU.
        stretch = 2.0 if number < 6 else 1.6
        both = {"0": guest("cpu", stretch, 2.5), "1": guest("cpu", stretch, 2.5)}
        mix = {"pool": f"{platform}-1", "mix": f"{platform}-1 {number}"}
        # The repetitions of the last mix differ by 2 % and -2 %.
        for repetition, off in enumerate((1.02, 1 / 1.02) if number == 6 else (1.0, 1.0), start=1):
            own = {slot: {**one, "same_s": one["same_s"] * off} for slot, one in both.items()}
            lines.append({**mix, "repetition": repetition, "guests": own})
    return lines


def test_errors_are_those_of_all_mixes() -> None:
    found = cases(measured())
    assert len(found) == 14
    assert ratios(found[:2], "shared") == pytest.approx([1.0, 1.0])
    assert mape_percent(found[-2:], "shared") == pytest.approx(25.0)
    # P is 1 / 1.6, and 1 / 2 is predicted.
    assert mae_of_p_points(found[-2:], "shared") == pytest.approx(12.5)
    assert mape_percent(found, "Erlang C") is None
    judged = document(found, live_cases(measured()), measured())
    assert (judged["mixes"], judged["guests"]) == (7, 14)
    assert judged["models"]["shared"]["mape_percent"] == pytest.approx(25.0 / 7)
    assert judged["models"]["shared"]["mae_of_p_points"] == pytest.approx(12.5 / 7)
    # The last mix is outside of the interval of all others, which is a point.
    assert judged["models"]["shared"]["covered_percent"] == pytest.approx(100 * 6 / 7)
    assert judged["models"]["Erlang C"]["without_an_answer"] == 14
    assert judged["factors"]["uml"] == pytest.approx(1.25)
    text = tables({**judged, "machine": "one", "measured": "2026-11-27"})
    assert "14 guests of 7 mixes" in text
    assert " 3.6" in text
    assert "covered_percent = 85.7" in toml_of({**judged, "machine": "one", "measured": "2026-11-27"}, {"uml": 1.4})

    # Of two pools of the platform one was measured: the wider interval of before stays.
    assert "factor = 1.400" in toml_of({**judged, "machine": "one", "measured": "2026-11-27"}, {"uml": 1.4})


def test_simple_models_stand_beside_it() -> None:
    works = [Work(1, 1.0, 1.0), Work(1, 1.0, 0.25), Work(1, 1.0, 1.0)]
    guests = [Guest(vcpus=1, weight=100), Guest(vcpus=1, weight=100), Guest(vcpus=1, weight=100, quota_percent=25.0)]
    # One CPU: a quarter for each of the two that want or may have no more, half for the first.
    assert water_filling(works, guests, 1) == pytest.approx([2.0, 1.0, 4.0])
    models = predictions(works, guests, 1)
    assert [one["weight share"] for one in models] == pytest.approx([1 / 0.375, 1 / 0.375, 4.0], rel=1e-3)
    constant = with_constant([Case(str(each), POOLS[0], "cpu", (each,), {}) for each in (1.0, 4.0, 9.0)])
    assert [one.predicted["constant"] for one in constant] == pytest.approx([6.0, 3.0, 2.0])


def test_the_floor_is_the_error_of_a_model_that_is_right() -> None:
    draw = random.Random(1)  # noqa: S311 - noise
    noisy = [
        Case(str(number), POOLS[0], "cpu", tuple(2.0 * math.exp(draw.gauss(0, 0.1)) for _ in range(2)), {})
        for number in range(2000)
    ]
    floor = noise_floor(noisy)
    assert floor is not None
    right = [Case(one.mix, one.pool, one.piece, one.each, {"right": 2.0}) for one in noisy]
    assert floor[0] == pytest.approx(mape_percent(right, "right"), rel=0.05)
    assert floor[1] == pytest.approx(mae_of_p_points(right, "right"), rel=0.05)
    assert noise_floor([Case("a", POOLS[0], "cpu", (2.0,), {})]) is None


def test_a_right_model_cannot_be_told_from_the_floor_and_a_wrong_one_can() -> None:
    draw = random.Random(3)  # noqa: S311
    noisy = [
        Case(
            str(number // 3), POOLS[0], "cpu", tuple(2.0 * math.exp(draw.gauss(0, 0.1)) for _ in range(2)),
            {"right": 2.0, "wrong": 2.5},
        )
        for number in range(120)
    ]  # fmt: skip
    right, wrong = beyond_floor(noisy, "right"), beyond_floor(noisy, "wrong")
    assert right is not None
    assert wrong is not None
    for error in ("mape_percent", "mae_of_p_points"):
        assert right[error][0] <= 0.0
        assert wrong[error][0] > 0.0
    assert beyond_floor(noisy[:20], "right") is None, "seven mixes are too few"


def test_the_counters_of_the_same_mixes_are_judged_too() -> None:
    live = live_cases(measured())
    assert [one.measured for one in live] == pytest.approx([2.0] * 14)
    assert ratios(live, "network") == pytest.approx([1.0] * 14)
    assert ratios(live, "contend inside") == pytest.approx([1.0] * 14)
    assert live_cases(measured("native")) == []
    judged = document(cases(measured()), live, measured())
    assert judged["company_percent"] == pytest.approx(0.0)
    written = live_toml_of({**judged, "machine": "one", "measured": "2026-11-27"})
    assert "[kind.uml]" in written
    assert "factor = 1.000" in written
    # Two processes of one virtual CPU of User-Mode Linux wait for each other: for no longer than none of them ran.
    assert wanted_s({"host_run_s": 4.0, "wait_s": 9.0, "elapsed_s": 5.0, "vcpu_threads": 2}, 2) == pytest.approx(5.0)
