"""Response-time analysis of many task sets: ours, the crate ``response-time-analysis`` and plain Python, in turn.

The sets have 20 tasks, a total utilization of 0.8 (randfixedsum, moderate periods) and deadline-monotonic priorities;
they are drawn once from seeds. Every side bounds the response time of every task on one core; the bounds of both
crates must have equal sums. Ours and the peer run in one Rust process (``examples/throughput.rs`` of the crate), which
reads the sets before any time is taken; plain Python gets the first sets only, and its rate is compared. The same sets
are also charged the overheads of an ordinary kernel and tested under EDF, which no peer does.

Targets: 1,000,000 sets/s, at least 5 times the peer and 100 times plain Python; 100,000 sets/s under EDF with
overheads. Printed, not asserted.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pairs import arguments, spread, take_turns

from stealtime import _core

TASKS = 20
UTILIZATION = 0.8
TARGET_SETS_PER_S = 1_000_000
TARGET_EDF = 100_000
TARGET_PEER = 5.0
TARGET_PYTHON = 100.0
BUILD = ("cargo", "build", "--quiet", "--release", "-p", "stealtime-schedulability", "--example", "throughput")

TaskSet = list[tuple[int, int]]


def draw(count: int) -> list[TaskSet]:
    """Draw sets of pairs of cost and period in ns, the shortest period first."""
    sets = []
    for seed in range(count):
        drawn = _core.generate_tasks(
            {
                "law": "randfixedsum",
                "total": UTILIZATION,
                "periods": "moderate",
                "deadlines": "implicit",
                "tasks": TASKS,
                "cap": 1.0,
                "over_utilized": "redraw",
                "attempts": 1,
                "seed": seed,
            }
        )
        pairs = [(cost, period) for cost, period, _ in drawn["tasks"]]
        sets.append(sorted(pairs, key=lambda pair: pair[1]))
    return sets


def plain_response(tasks: TaskSet, index: int) -> int:
    """Bound a response time as a textbook has it; 0 where the deadline, the period, is missed."""
    cost, period = tasks[index]
    window = cost
    while True:
        longer = cost + sum(-(-window // other_period) * other_cost for other_cost, other_period in tasks[:index])
        if longer > period:
            return 0
        if longer == window:
            return window
        window = longer


class Analyser:
    """The Rust process with both crates."""

    def __init__(self, program: Path, sets: Path) -> None:
        self._process = subprocess.Popen([program, sets], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, side: str) -> tuple[float, int]:
        """Analyse all sets once; give seconds and the sum of all bounds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{side}\n")
        self._process.stdin.flush()
        seconds, total = self._process.stdout.readline().split()
        return float(seconds), int(total)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def build() -> Path:
    """Build the Rust side and give its path."""
    subprocess.run(BUILD, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "examples" / "throughput"


def main() -> None:
    parser = arguments(__doc__, pairs=5)
    parser.add_argument("--sets", type=int, default=20_000)
    parser.add_argument("--python-sets", type=int, default=500, help="how many of them plain Python analyses")
    options = parser.parse_args()
    program = build()
    sets = draw(options.sets)
    few = sets[: options.python_sets]
    sums: dict[str, int] = {}

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sets"
        path.write_text("\n".join("".join(f"{cost} {period}\n" for cost, period in one) for one in sets))
        analyser = Analyser(program, path)

        def rust(side: str) -> Callable[[], float]:
            def rate() -> float:
                seconds, sums[side] = analyser.measure(side)
                return len(sets) / seconds

            return rate

        def plain() -> float:
            began = time.perf_counter()
            sums["plain Python"] = sum(plain_response(one, index) for one in few for index in range(TASKS))
            return len(few) / (time.perf_counter() - began)

        analyser.measure("ours")
        sides = {"ours": rust("ours"), "peer": rust("peer"), "plain Python": plain, "edf": rust("edf")}
        rounds = list(take_turns(options.pairs, sides))
        analyser.close()
    if sums["ours"] != sums["peer"]:
        raise SystemExit(f"the bounds of all sets add up to {sums['ours']} ns and to {sums['peer']} ns")
    missed = sum(plain_response(one, TASKS - 1) == 0 for one in few)
    show(rounds, options.json, missed / len(few), sums["edf"] / len(sets))


def show(rounds: list[dict[str, float]], as_json: bool, missed_share: float, edf_share: float) -> None:
    """Print rates and ratios with their spread."""
    document = {
        "benchmark": f"response times of sets of {TASKS} tasks, utilization {UTILIZATION}",
        "unit": "sets/s on one core",
        "rounds": len(rounds),
        **{side: spread([one[side] for one in rounds]) for side in rounds[0]},
        "ours / peer": spread([one["ours"] / one["peer"] for one in rounds]),
        "ours / plain Python": spread([one["ours"] / one["plain Python"] for one in rounds]),
        "share of sets whose last task misses": missed_share,
        "share of sets that are schedulable under EDF with overheads": edf_share,
        "targets": {
            "ours": TARGET_SETS_PER_S,
            "edf": TARGET_EDF,
            "ours / peer": TARGET_PEER,
            "ours / plain Python": TARGET_PYTHON,
        },
    }
    if as_json:
        print(json.dumps(document, indent=1))
        return
    print(f"{document['benchmark']}: {len(rounds)} interleaved rounds; min / median / max, {document['unit']}")
    for name, value in document.items():
        if isinstance(value, dict) and name != "targets":
            print(f"{name:24}" + "".join(f"{value[key]:14,.1f}" for key in ("min", "median", "max")))
    print(f"targets: {document['targets']}; in {missed_share:.1%} of the sets the last task misses its deadline")
    print(f"under EDF with overheads {edf_share:.1%} of the sets are schedulable")


if __name__ == "__main__":
    main()
