"""How often a change is told of a host that never changed, and how often a change that is there is found.

Series of recorded trials, drawn anew for each run (``tests/rigs/simulated_fleet.py``); for hosts that are noisier than
the recorded one, what a trial is off the median is raised to a power. Apache Otava is needed (``tools/otava.sh``).

    python benchmarks/change_alarms.py [--series N]
"""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rigs"))

from installed_otava import installed_otava
from simulated_fleet import SimulatedHost, values_of

from stealtime.site.change_points import Series, find_changes

RUNS = (8, 20, 60, 120)
NOISE = (1, 4, 12, 30)
REPETITIONS = 4
CHANGED = 200
Change = Callable[[np.ndarray], None]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--series", type=int, default=1_000, help="of each kind")
    asked = options.parse_args()
    program = installed_otava()
    if program is None:
        sys.exit("Apache Otava is not installed: tools/otava.sh")
    trials = list(values_of([SimulatedHost("one")], 120, np.random.default_rng(11)))
    alarms = series = 0
    for figure in ("p50", "p99"):
        usual = np.array([one.levels[figure] for one in trials], float)
        for power in NOISE:
            noisy = np.median(usual) * (usual / np.median(usual)) ** power
            spread = noisy.std() / noisy.mean()
            for runs in RUNS:
                quiet = drawn(noisy, asked.series, runs)
                told = {one.host for one in find_changes(quiet, [], program)}
                alarms, series = alarms + len(told), series + len(quiet)
                print(f"{figure}, trials {100 * spread:.0f} % apart, {runs} runs: {len(told)} of {len(quiet)} alarms")
    print(f"in all: {alarms} of {series} quiet series, {1000 * alarms / series:.2f} in 1,000")
    usual = np.array([one.levels["p50"] for one in trials], float)
    for runs in RUNS:
        for what, change in changes(runs).items():
            found = find_changes(drawn(usual, CHANGED, runs, change), [], program)
            print(f"{what}, {runs} runs: found in {len({one.host for one in found})} of {CHANGED}")


def drawn(trials: np.ndarray, count: int, runs: int, change: Change | None = None) -> list[Series]:
    """Give series of runs, each the median of some trials."""
    chance = np.random.default_rng(runs)
    at = tuple(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(runs))
    names = tuple(f"run{day}" for day in range(runs))
    series = []
    for number in range(count):
        values = np.median(chance.choice(trials, (runs, REPETITIONS)), axis=1)
        if change is not None:
            change(values)
        series.append(Series(f"h{number}", "cell", "figure", at, names, tuple(map(float, values))))
    return series


def changes(runs: int) -> dict[str, Change]:
    """Give changes that a series of so many runs has room for."""

    def last(values: np.ndarray) -> None:
        values[-3:] *= 1.1

    def back(values: np.ndarray) -> None:
        middle = runs // 3
        values[middle : middle + 10] *= 1.1

    found: dict[str, Change] = {"10 % more in the last three": last}
    return found | ({"10 % more in ten of them, and back": back} if runs >= 40 else {})


if __name__ == "__main__":
    main()
