"""How fast a kernel's trace becomes overheads: pages to rows, and rows to samples and chains (target: 1 GB in 5 s).

Pages: one that a 6.18 kernel wrote, over and over (`crates/trace/examples/decode.rs`). Rows: releases of a task by a
timer, as a kernel with all boundaries tells them, nine rows each. What the rows of 1 GB of pages take is the sum.
"""

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pairs import arguments, spread, take_turns

from stealtime._core import EVENT_KINDS, measure_overheads

if TYPE_CHECKING:
    from stealtime._core import EventsDict, StampedJobsDict

ROOT = Path(__file__).parents[1]
BUILD = ("cargo", "build", "--quiet", "--release", "-p", "stealtime-trace", "--example", "decode")
TARGET_S = 5.0
GIGABYTE = 10**9
ROWS = ("vector_entry", "timer_entry", "waking", "timer_exit", "vector_exit", "schedule_entry", "switch")
ROWS_A_JOB = (*ROWS, "schedule_exit", "switch")
PERIOD = 1000


def decode(mebibytes: int) -> tuple[float, float]:
    """Give the seconds and the rows of 1 GB of pages."""
    program = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "examples" / "decode"
    argv = [str(program), str(ROOT / "tests" / "golden" / "trace"), str(mebibytes)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True)
    seconds, spooled, events = map(float, done.stdout.split())
    return seconds * GIGABYTE / spooled, events * GIGABYTE / spooled


def history(jobs: int) -> "tuple[EventsDict, StampedJobsDict]":
    """Make rows and jobs of one task that is released from idle, again and again."""
    rows = len(ROWS_A_JOB)
    place = np.tile(np.arange(rows), jobs)
    release = PERIOD * (1 + np.arange(jobs, dtype=np.uint64))
    kind = np.tile(np.array([EVENT_KINDS.index(name) for name in ROWS_A_JOB], np.uint8), jobs)
    is_task = (place == ROWS.index("waking")) | (place == ROWS.index("switch"))
    events: EventsDict = {
        "time": np.repeat(release, rows) + 10 + 50 * place.astype(np.uint64),
        "cpu": np.zeros(rows * jobs, np.uint16),
        "kind": kind,
        "thread": np.zeros(rows * jobs, np.int32),
        "value": np.zeros(rows * jobs, np.int64),
        "other": np.where(is_task, 50, 0).astype(np.int32),
        "priority": np.where(is_task, 49, 120).astype(np.int16),
        "name": np.zeros(rows * jobs, np.uint32),
        "names": ["hrtimer_wakeup"],
        "covered": (0, int(release[-1]) + PERIOD),
    }
    start = release + 380
    stamped: StampedJobsDict = {
        "thread": np.full(jobs, 50, np.int32),
        "release": release,
        "start": start,
        "finish": start + 10,
    }
    return events, stamped


def main() -> None:
    parser = arguments(__doc__, pairs=5)
    parser.add_argument("--size", type=int, default=256, metavar="MIB", help="pages decoded at once; default 256")
    parser.add_argument("--jobs", type=int, default=500_000, help="default 500,000")
    options = parser.parse_args()
    subprocess.run(BUILD, check=True, cwd=ROOT)
    events, jobs = history(options.jobs)
    rows_a_gigabyte: list[float] = []

    def pages() -> float:
        seconds, rows = decode(options.size)
        rows_a_gigabyte.append(rows)
        return seconds

    def pair() -> float:
        began = time.perf_counter()
        found = measure_overheads(events, jobs, [])
        elapsed_s = time.perf_counter() - began
        # The first one has no switch before it that tells who ran.
        if found["discards"]["jobs"]["runner_unknown"] != 1 or int((found["chains"]["discard"] == 0).sum()) + 1 != len(
            jobs["thread"]
        ):
            raise SystemExit(f"the jobs have no chains: {found['discards']}")
        return elapsed_s / len(events["time"])

    turns = list(take_turns(options.pairs, {"pages": partial(pages), "pairs": partial(pair)}))
    rows = rows_a_gigabyte[0]
    seconds = {"decoding": [turn["pages"] for turn in turns], "pairing": [turn["pairs"] * rows for turn in turns]}
    document: dict[str, Any] = {
        "benchmark": "1 GB of a kernel's trace to overheads",
        "machine": f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}",
        "pairs": options.pairs,
        "rows": rows,
        "seconds": {
            **{name: spread(values) for name, values in seconds.items()},
            "both": spread([sum(both) for both in zip(*seconds.values(), strict=True)]),
        },
        "target_s": TARGET_S,
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return
    print(f"{document['benchmark']}: {options.pairs} rounds; min / median / max ({document['machine']})")
    for name, values in document["seconds"].items():
        print(f"{name:12}" + "".join(f"{values[end]:8.2f}" for end in ("min", "median", "max")) + " s")
    print(f"{rows:.0f} rows; target: both within {TARGET_S:.0f} s")


if __name__ == "__main__":
    main()
