"""What ``stretch_prediction.py`` draws, counts and judges."""

import math
from typing import Any

import numpy as np
import pytest
from co_located.judging import cases, conformal_factor, covered, mape_percent, ratios
from co_located.measuring import rate_per_s
from co_located.mixes import PIECES, POOLS, Role, mixes
from co_located.verdict import document, tables, toml_of

COUNTS: dict[Role, int] = {"calibration": 9, "held-out": 4}


def test_each_mix_is_drawn_once_and_all_work_is_in_some() -> None:
    for pool in POOLS:
        drawn = mixes(pool, COUNTS)
        assert drawn == mixes(pool, COUNTS)
        assert drawn != mixes(pool, COUNTS, seed=1)
        assert [sum(one.role == role for one in drawn) for role in COUNTS] == [9, 4]
        alike = {tuple(sorted((max(slot, 2), piece) for slot, piece in one.pieces.items())) for one in drawn}
        assert len(alike) == len(drawn)
    everywhere = {piece for pool in POOLS for one in mixes(pool, COUNTS) for piece in one.pieces.values()}
    assert everywhere == set(PIECES)


def test_an_iteration_counts_by_the_part_that_lies_in_the_window() -> None:
    starts, durations = np.array([0, 10, 20, 90]), np.array([10, 10, 20, 20])
    # Half of the first, all of the second and the third; the last begins after the window.
    assert rate_per_s(starts, durations, 5, 45) == pytest.approx(2.5 / 40e-9)
    assert rate_per_s(starts, durations, 25, 30) == pytest.approx(0.25 / 5e-9)


def test_an_interval_holds_the_wished_share_of_what_it_was_found_on() -> None:
    ratios_found = [1.0, 1.1, 0.9, 1.05, 1.2, 1.0, 1.0, 1.0, 1 / 1.3]
    assert conformal_factor(ratios_found) == pytest.approx(1.3)
    assert conformal_factor(ratios_found, 0.8) == pytest.approx(1.2)
    assert conformal_factor(ratios_found[:8]) is None
    assert covered(ratios_found, 1.2) == pytest.approx(8 / 9)
    assert conformal_factor([math.exp(0.01 * number) for number in range(99)]) == pytest.approx(math.exp(0.89))


def measured() -> list[dict[str, Any]]:
    """Guests that fare exactly as the always busy ones of the first pool must, but in one mix."""

    def guest(piece: str, rate: float) -> dict[str, Any]:
        return {
            "piece": piece, "rate_per_s": rate, "iterations": 100, "cpu_s": 100 / 50, "io_asked_s": 0.0,
            "host_run_s": None,
        }  # fmt: skip

    lines: list[dict[str, Any]] = [
        {"pool": "native-1", "repetition": 1, "mix": None, "guests": {"0": guest("cpu", 50.0)}}
    ]
    for number in range(7):
        role: Role = "calibration" if number < 5 else "held-out"
        # The last is 25 % faster than two that share a CPU.
        rate = 25.0 if number < 6 else 31.25
        both = {"0": guest("cpu", rate), "1": guest("cpu", rate)}
        mix = {"pool": "native-1", "repetition": 1, "mix": f"native-1 {role} {number}", "role": role}
        lines.append({**mix, "guests": both})
    return lines


def test_errors_are_those_of_the_held_out_mixes() -> None:
    found = cases(measured())
    assert len(found) == 14
    assert ratios(found[:2], "shared") == pytest.approx([1.0, 1.0])
    assert mape_percent(found[-2:], "shared") == pytest.approx(25.0)
    assert mape_percent(found, "Erlang C") is None
    judged = document(found)
    assert (judged["mixes"], judged["guests"]) == (2, 4)
    assert judged["models"]["shared"]["mape_percent"] == pytest.approx(12.5)
    assert judged["models"]["shared"]["covered_percent"] == pytest.approx(50.0)
    assert judged["models"]["Erlang C"]["without_an_answer"] == 4
    assert judged["factors"]["native"] == pytest.approx(1.0)
    text = tables({**judged, "machine": "one", "measured": "2026-11-23"})
    assert "4 guests of 2 held-out mixes" in text
    assert "12.5 %" in text
    assert "covered_percent = 50.0" in toml_of({**judged, "machine": "one", "measured": "2026-11-23"})
