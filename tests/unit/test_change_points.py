"""Changes from run to run: a shift is found within three runs, and 1,000 quiet series raise at most one alarm."""

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from installed_otava import installed_otava
from simulated_fleet import SimulatedHost, values_of

from stealtime.site.change_points import Known, Series, find_changes, read_known
from stealtime.vocabulary.errors import StealtimeError, UsageError

OTAVA = installed_otava() or ""
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


def _quiet(name: str, figure: str, trials: np.ndarray, chance: np.random.Generator, runs: int = RUNS) -> Series:
    return _series(name, figure, np.median(chance.choice(trials, (runs, REPETITIONS)), axis=1))


@needs_otava
def test_a_thousand_quiet_series_raise_at_most_one_alarm(recorded: dict[str, np.ndarray]) -> None:
    chance = np.random.default_rng(3)
    quiet = [
        _quiet(f"h{number}", figure, recorded[figure], chance) for number in range(500) for figure in ("p50", "p99")
    ]
    assert len(quiet) == 1_000
    # Of another host, so that the same call shows that it can find something.
    values = np.array(_quiet("h", "p50", recorded["p50"], chance).values)
    values[RUNS - 3 :] *= 1.1
    same = np.repeat((64_000.0, 70_000.0), (12, 8))
    others = [_series("shifted", "p50", values), _series("without spread", "floor", same)]
    changes = find_changes([*quiet, *others], [], OTAVA)
    assert [one.run for one in changes if one.host == "without spread"] == ["run12"]
    (found,) = [one for one in changes if one.host == "shifted"]
    assert found.run == f"run{RUNS - 3}", "three runs after it"
    assert found.factor == pytest.approx(1.1, rel=0.04)
    assert len(changes) - 2 <= 1


@needs_otava
def test_long_series_of_a_noisy_host_raise_as_few_and_levels_lie_between_changes(
    recorded: dict[str, np.ndarray],
) -> None:
    chance = np.random.default_rng(1260)
    usual = np.median(recorded["p50"])
    noisy = usual * (recorded["p50"] / usual) ** 12
    assert 0.1 < noisy.std() / noisy.mean() < 0.2
    quiet = [_quiet(f"h{number}", "p50", noisy, chance, runs=60) for number in range(1_000)]
    steady = np.array(_quiet("h", "p50", recorded["p50"], chance, runs=60).values)
    alone, raised = steady.copy(), steady.copy()
    # At the end of what Otava looks at together it tells one change of this.
    alone[49] *= 1.3
    raised[20:30] *= 1.2
    changes = find_changes([*quiet, _series("alone", "p50", alone), _series("raised", "p50", raised)], [], OTAVA)
    found = [one for one in changes if one.host in ("alone", "raised")]
    assert [(one.host, one.run) for one in found] == [("raised", "run20"), ("raised", "run30")]
    assert [one.factor for one in found] == pytest.approx([1.2, 1 / 1.2], rel=0.03)
    assert len(changes) - len(found) <= 1


@needs_otava
def test_what_is_known_is_told_with_its_reason(recorded: dict[str, np.ndarray]) -> None:
    values = np.array(_quiet("h", "p50", recorded["p50"], np.random.default_rng(4)).values)
    values[RUNS - 3 :] *= 1.1
    known = Known(why="kernel 6.12.9", host="h", since=date(2026, 1, 1))
    elsewhere = Known(why="another host", host="g", since=date(2026, 1, 1))
    both = [_series("h", "p50", values), _series("other", "p50", values)]
    assert {one.host: one.known for one in find_changes(both, [elsewhere, known], OTAVA)} == {
        "h": "kernel 6.12.9",
        "other": None,
    }


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
