"""How long many hosts take: 100 hosts x 48 trials merged and shown, and the page over 1,000 runs, with its memory.

Hosts are made of recorded pieces (``tests/rigs/simulated_fleet.py``); a trial has a piece of 5 s, with some thousand
distinct durations, as trials of the probes have. Each command is a process of its own, as a user starts it. The files
are as they come from hosts: the first command that reads a run makes its tables, which counts.

    python benchmarks/many_hosts.py [--runs N] [--folder DIR]
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rigs"))

import simulated_fleet
from simulated_fleet import SimulatedHost, SimulatedRun, write_run

HOSTS, CELLS, REPETITIONS = 100, 12, 4
MERGED_AND_SHOWN_S, SITE_S, SITE_BYTES = 5.0, 60.0, 2 << 30


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=1_000, help="of the page, in multiples of 100")
    options.add_argument("--trials", type=int, default=4, help="of each run of the page")
    options.add_argument("--folder", type=Path, default=None)
    asked = options.parse_args()
    simulated_fleet.PIECES_A_TRIAL = 1
    folder = Path(tempfile.mkdtemp(prefix="stealtime-many-hosts-", dir=asked.folder))
    try:
        merge_and_show(folder)
        page(folder, asked.runs, asked.trials)
    finally:
        shutil.rmtree(folder)


def merge_and_show(folder: Path) -> None:
    chance = np.random.default_rng(1)
    runs = [
        write_run(
            folder / "once", SimulatedRun(SimulatedHost(f"h{one:03}"), repetitions=REPETITIONS, cells=CELLS), chance
        )
        for one in range(HOSTS)
    ]
    merged_s, _ = timed("merge", *map(str, runs), "-o", str(folder / "merged"))
    shown_s, _ = timed("show", str(folder / "merged"))
    again_s, _ = timed("merge", *map(str, runs), "-o", str(folder / "again"))
    print(
        f"{HOSTS} hosts x {CELLS * REPETITIONS} trials: merged in {merged_s:.1f} s, shown in {shown_s:.1f} s, "
        f"together {merged_s + shown_s:.1f} s of at most {MERGED_AND_SHOWN_S:g} s; merged again, with tables, in "
        f"{again_s:.1f} s"
    )


def page(folder: Path, count: int, trials: int) -> None:
    chance = np.random.default_rng(2)
    host = SimulatedRun(SimulatedHost("any"))
    for number in range(count):
        at = host.at + timedelta(days=number // HOSTS)
        one = SimulatedRun(SimulatedHost(f"h{number % HOSTS:03}"), at=at, repetitions=trials)
        write_run(folder / "many", one, chance)
    site_s, memory = timed("site", str(folder / "many"), "-o", str(folder / "page"))
    again_s, _ = timed("site", str(folder / "many"), "-o", str(folder / "page"))
    print(
        f"the page of {count} runs of {trials} trials: {site_s:.1f} s of at most {SITE_S:g} s (again, with tables: "
        f"{again_s:.1f} s), at most {memory / 2**20:.0f} MiB of {SITE_BYTES / 2**20:.0f} MiB"
    )


def timed(*arguments: str) -> tuple[float, int]:
    """Run a command; gives its seconds and its largest memory in bytes."""
    begin = time.monotonic()
    done = subprocess.run(
        [shutil.which("stealtime") or "stealtime", *arguments], capture_output=True, text=True, check=False
    )
    took = time.monotonic() - begin
    if done.returncode not in (0, 3, 4):
        sys.exit(done.stderr)
    # The largest of all children so far: those that came before are smaller, or it is at most this.
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


if __name__ == "__main__":
    main()
