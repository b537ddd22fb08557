"""Does an independent simulator contradict the analysis? And how much too careful is the analysis?

Random sets (up to eight tasks, deadlines and jitter up to three periods, equal priorities, blocking, every overhead, a
whole CPU or a share) are analysed under both policies, with their overheads and without, and simulated: all jobs at
once and as late as may be, one task so that deadlines meet, one a little earlier, at random; the share of the CPU at
its worst and at random. Nothing of the simulator (``crates/simulator``) is shared with the analysis. The
process ends with 1 if an accepted set misses a deadline or a response exceeds its bound.

Also: of ten tasks with implicit deadlines and an ordinary kernel's overheads, how many of 1,000 sets are accepted under
EDF at some utilizations: now, with interrupts as a slow-down (SchedCAT's accounting), and how many kept all deadlines.
"""

import json
import os
import subprocess
from pathlib import Path

from pairs import arguments

BUILD = ("cargo", "build", "--quiet", "--release", "-p", "stealtime-schedulability", "--example", "judgement")
COLUMNS = (
    "sets",
    "accepted",
    "contradictions",
    "refused, no miss seen",
    "bounds",
    "bounds reached",
    "bound / seen, median",
    "90 %",
    "99 %",
)


def main() -> None:
    parser = arguments(__doc__, pairs=1)
    parser.add_argument("--sets", type=int, default=100_000, help="default 100,000")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first one, unlike those of `make test`")
    options = parser.parse_args()
    subprocess.run(BUILD, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "examples" / "judgement"
    ran = subprocess.run([program, str(options.sets), str(options.seed)], capture_output=True, text=True, check=True)
    kinds: list[tuple[str, dict[str, float]]] = []
    accepted: list[dict[str, int]] = []
    for line in ran.stdout.splitlines():
        name, *cells = line.split("\t")
        if name == "kind":
            *words, median, p90, p99 = cells
            counts = list(map(int, words[3:]))
            ratios = [int(thousandths) / 1_000 for thousandths in (median, p90, p99)]
            kinds.append((", ".join(words[:3]), dict(zip(COLUMNS, [*counts, *ratios], strict=True))))
        else:
            keys = ("utilization_percent", "sets", "accepted", "accepted_as_slow_down", "kept_all_deadlines")
            accepted.append(dict(zip(keys, map(int, cells), strict=True)))
    contradictions = sum(int(one["contradictions"]) for _, one in kinds)
    if options.json:
        print(json.dumps({"benchmark": "analysis against simulator", "kinds": dict(kinds), "edf": accepted}, indent=1))
    else:
        for kind, one in kinds:
            print(kind + ": " + "; ".join(f"{name} {value:,}" for name, value in one.items()))
        for point in accepted:
            print("EDF with overheads: " + "; ".join(f"{name} {count:,}" for name, count in point.items()))
    if contradictions:
        raise SystemExit(f"{contradictions} contradictions:\n{ran.stderr[:4000]}")


if __name__ == "__main__":
    main()
