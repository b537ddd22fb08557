"""How long many hosts take: 100 hosts x 48 trials merged and shown, and the page over 1,000 runs, with its memory.

Hosts are made of recorded pieces (``tests/rigs/simulated_fleet.py``); a trial has a piece of 5 s, with some thousand
distinct durations, as trials of the probes have. Each command is a process of its own, as a user starts it. The files
are as they come from hosts: with the index of rows that a run has since it ends with one, and, as runs of earlier
versions come, without; then the first command that reads a run makes it, which counts. A process that helps another
counts with its time, not with its memory.

    python benchmarks/many_hosts.py [--runs N] [--folder DIR]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "rigs"))

import simulated_fleet
from simulated_fleet import SimulatedHost, SimulatedRun, write_run

from stealtime.merging.tables import keep_rows
from stealtime.store.run import Run

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
    without = timed("merge", *map(str, runs), "-o", str(folder / "without"))
    for run in runs:
        keep_rows(Run.open(run))
    merged = timed("merge", *map(str, runs), "-o", str(folder / "merged"))
    shown = timed("show", str(folder / "merged"))
    again = timed("merge", str(folder / "merged"), "-o", str(folder / "again"))
    print(
        f"{HOSTS} hosts x {CELLS * REPETITIONS} trials: merged in {merged}, shown in {shown}, together "
        f"{merged.elapsed_s + shown.elapsed_s:.1f} s of at most {MERGED_AND_SHOWN_S:g} s, "
        f"at most {max(merged.memory_bytes, shown.memory_bytes) / 2**20:.0f} MiB; runs of earlier versions merged in "
        f"{without}; the merged run merged again in {again}"
    )


def page(folder: Path, count: int, trials: int) -> None:
    chance = np.random.default_rng(2)
    host = SimulatedRun(SimulatedHost("any"))
    for number in range(count):
        at = host.at + timedelta(days=number // HOSTS)
        one = SimulatedRun(SimulatedHost(f"h{number % HOSTS:03}"), at=at, repetitions=trials)
        write_run(folder / "many", one, chance)
    first = timed("site", str(folder / "many"), "-o", str(folder / "page"))
    again = timed("site", str(folder / "many"), "-o", str(folder / "page"))
    print(
        f"the page of {count} runs of {trials} trials: {first} of at most {SITE_S:g} s (again, with tables: {again}), "
        f"at most {max(first.memory_bytes, again.memory_bytes) / 2**20:.0f} MiB of {SITE_BYTES / 2**20:.0f} MiB"
    )


@dataclass(frozen=True)
class Took:
    """What a command took."""

    elapsed_s: float
    cpu_s: float
    memory_bytes: int
    """The most at any time."""

    def __str__(self) -> str:
        return f"{self.elapsed_s:.1f} s ({self.cpu_s:.1f} s of CPU)"


def timed(*arguments: str) -> Took:
    """Run a command as a process of its own."""
    program = Path(sys.executable).parent / "stealtime"
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        if code not in (0, 3, 4):
            said.seek(0)
            sys.exit(said.read())
    return Took(time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


if __name__ == "__main__":
    main()
