"""Equal runs on real machines are not called different, and a disturbance is."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from stealtime.store.run import Run

pytestmark = [pytest.mark.guest, pytest.mark.truth]

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "different_runs.py"
TRIALS, TICK_LOOP_NS, STOLEN_NS = 8, 68_000, 100_000
SHARE_MAX = 0.15
"""Of some thirty statistics of one pair, not independent: of 210 pairs of equal runs none went beyond 0.12."""


def test_equal_runs_are_not_called_different_and_a_disturbance_is(tmp_path: Path, tell: Callable[[str], None]) -> None:
    argv = [sys.executable, str(PROGRAM), "--short", "--json", "--folder", str(tmp_path)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in {0, 1}, ended.stderr
    found = json.loads(ended.stdout)["forms"]["short"]
    alarms, platforms = found["false_alarms"], found["disturbances"]["thefts"]["platforms"]
    assert alarms["judged"] > 20, alarms
    shares = ", ".join(f"{name}: {one['found']:.0%}" for name, one in platforms.items())
    tell(
        f"equal runs: {alarms['different']} of {alarms['judged']} statistics called different; 100 us stolen every "
        f"2 ms found in {shares}"
    )
    assert alarms["share"] <= SHARE_MAX, alarms
    if (noisiest_ns := max(p99_of_equal_trials_ns(tmp_path / "short/equal"))) > TICK_LOOP_NS + STOLEN_NS:
        # No figure can show what is stolen where as much is missing without it. How much is found on a quiet machine,
        # its kept runs say (`benchmarks/different_runs.py --kept`).
        tell(f"equal runs: not judged whether thefts are found, because one trial alone has a p99 of {noisiest_ns} ns")
    else:
        assert platforms["native"]["found"] == 1.0, platforms


def p99_of_equal_trials_ns(folder: Path) -> list[int]:
    """Give the 99th percentile of each trial of ``tick`` on this machine, of all runs that nobody disturbed."""
    trials = [trial for path in folder.glob("*/manifest.json") for trial in Run.open(path.parent).measured]
    p99_ns = []
    for trial in trials:
        if (trial.record.cell.platform, trial.record.cell.probe) == ("native", "tick"):
            assert trial.record.outcome is not None
            longest = pc.quantile(pq.read_table(trial.table("samples"))["duration"], q=0.99)[0].as_py()
            p99_ns.append(round(longest / trial.record.outcome.clock.units_per_s * 1e9))
    assert len(p99_ns) == TRIALS, "two runs of four repetitions"
    return p99_ns
