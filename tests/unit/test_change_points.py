"""Changes from run to run: a shift is found within three runs, and 1,000 quiet series raise at most one alarm."""

import os
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from simulated_fleet import SimulatedHost, values_of

from stealtime.site.change_points import Known, Series, find_changes, find_otava, read_known
from stealtime.vocabulary.errors import StealtimeError, UsageError

OTAVA = find_otava(os.environ) or ""
needs_otava = pytest.mark.skipif(not OTAVA, reason="Apache Otava is not installed")
RUNS = 20
REPETITIONS = 4


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    """Figures of trials made of recorded pieces."""
    trials = list(values_of([SimulatedHost("one")], 120, np.random.default_rng(11)))
    return {name: np.array([one.levels[name] for one in trials], float) for name in ("p50", "p99")}


def _series(name: str, figure: str, values: np.ndarray) -> Series:
    at = tuple(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(len(values)))
    return Series(name, "cell", figure, at, tuple(f"run{day}" for day in range(len(values))), tuple(map(float, values)))


def _quiet(name: str, figure: str, trials: np.ndarray, chance: np.random.Generator) -> Series:
    return _series(name, figure, np.median(chance.choice(trials, (RUNS, REPETITIONS)), axis=1))


@needs_otava
def test_a_thousand_quiet_series_raise_at_most_one_alarm(recorded: dict[str, np.ndarray]) -> None:
    chance = np.random.default_rng(3)
    quiet = [
        _quiet(f"h{number}", figure, recorded[figure], chance) for number in range(500) for figure in ("p50", "p99")
    ]
    assert len(quiet) == 1_000
    assert len(find_changes(quiet, [], OTAVA)) <= 1


@needs_otava
def test_a_shift_of_ten_percent_is_found_three_runs_after_it(recorded: dict[str, np.ndarray]) -> None:
    chance = np.random.default_rng(4)
    values = np.array(_quiet("h", "p50", recorded["p50"], chance).values)
    values[RUNS - 3 :] *= 1.1
    (found,) = find_changes([_series("h", "p50", values)], [], OTAVA)
    assert found.run == f"run{RUNS - 3}"
    assert found.factor == pytest.approx(1.1, rel=0.04)
    known = Known(why="kernel 6.12.9", host="h", since=date(2026, 1, 1))
    assert find_changes([_series("h", "p50", values)], [known], OTAVA)[0].known == "kernel 6.12.9"
    elsewhere = Known(why="another host", host="g", since=date(2026, 1, 1))
    assert find_changes([_series("h", "p50", values)], [elsewhere], OTAVA)[0].known is None


def test_a_program_that_fails_is_told(tmp_path: Path) -> None:
    program = tmp_path / "otava"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such option: --since')\n")
    program.chmod(0o755)
    with pytest.raises(StealtimeError, match="no such option"):
        find_changes([_series("h", "p50", np.arange(1.0, 21.0))], [], str(program))


def test_what_is_known_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text('[[known]]\nsince = 2026-11-20\nwhy = "new kernel"\nhost = "h1"\n')
    assert read_known(path)[0].host == "h1"
    for text in ("[[known]]\n", "[[known]]\nsince = 2026-11-20\nwhy = ''\n", "known = 1\n", "nothing"):
        path.write_text(text)
        with pytest.raises(UsageError, match="known"):
            read_known(path)
