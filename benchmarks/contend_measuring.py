"""What ``contend`` loses to measuring each of its iterations: the same work with and without it, in turn.

Compared is CPU time, which the measuring costs and other work on the host takes little of. Twice:

- *told directly*: iterations that do next to nothing (a page, no search) show what measuring one costs; that is held
  against an iteration of the work as it is by default, done in the same turn. What is looked for is most of the time
  there, so it is told to some percent of itself.
- *of the whole work*: the ratio of the CPU time of the same default work with and without it. It has in it what the
  measuring does to caches, and is as exact as the machine is steady.

One task on one CPU does no I/O, so that nothing hides the measuring. Intervals are of 95 % (Student's t over turns).
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

from pairs import arguments, take_turns
from scipy.special import stdtrit

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
TARGET_PERCENT = 1.0
NEXT_TO_NOTHING = ("--collection", "4KiB", "--searches", "0")
TINY_ITERATIONS = 20_000
BARE = ("--bare",)


@dataclass(frozen=True)
class Told:
    """A mean with its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def told(values: Sequence[float]) -> Told:
    half = stdtrit(len(values) - 1, 0.975) * stdev(values) / math.sqrt(len(values))
    return Told(mean(values), mean(values) - half, mean(values) + half)


def cpu_us(cpu: int, iterations: int, *options: str) -> float:
    """Give the CPU time of an iteration."""
    argv = [str(AGENT), "contend", "--cpu", str(cpu), "--tasks", "1", "--io", "0s", "--iterations", str(iterations)]
    document = json.loads(subprocess.run([*argv, "--json", *options], stdout=subprocess.PIPE, check=True).stdout)
    return float(document["cpu_s"]) * 1e6 / iterations


def main() -> int:
    parser = arguments(__doc__, pairs=60)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--iterations", type=int, default=20, help="of the default work, in each turn (default 20)")
    options = parser.parse_args()
    sides = {
        "measured": lambda: cpu_us(options.cpu, options.iterations),
        "bare": lambda: cpu_us(options.cpu, options.iterations, *BARE),
        "tiny measured": lambda: cpu_us(options.cpu, TINY_ITERATIONS, *NEXT_TO_NOTHING),
        "tiny bare": lambda: cpu_us(options.cpu, TINY_ITERATIONS, *NEXT_TO_NOTHING, *BARE),
    }
    turns = list(take_turns(options.pairs, sides))
    costs_us = [turn["tiny measured"] - turn["tiny bare"] for turn in turns]
    iteration_us = [turn["bare"] for turn in turns]
    direct = told([100 * cost / work for cost, work in zip(costs_us, iteration_us, strict=True)])
    # The ratio is that of geometric means.
    logarithms = told([math.log(turn["measured"] / turn["bare"]) for turn in turns])
    whole = Told(*(100 * math.expm1(one) for one in (logarithms.mean, logarithms.low, logarithms.high)))
    kept = direct.high < TARGET_PERCENT and whole.low < TARGET_PERCENT
    if options.json:
        document = {
            "benchmark": "what contend loses to measuring",
            "load": os.getloadavg()[0],
            "turns": len(turns),
            "cost_us": asdict(told(costs_us)),
            "iteration_us": asdict(told(iteration_us)),
            "direct_percent": asdict(direct),
            "whole_percent": asdict(whole),
            "target_percent": TARGET_PERCENT,
            "kept": kept,
        }
        print(json.dumps(document, indent=1))
        return 0 if kept else 1
    print(f"contend with each iteration measured: {len(turns)} interleaved turns (load {os.getloadavg()[0]:.1f})")
    print(f"measuring an iteration costs       {told(costs_us)} us of CPU time")
    print(f"an iteration of the default work   {told(iteration_us)} us")
    print(f"told directly, it loses            {direct} %")
    print(f"the whole work takes               {whole} % more CPU time")
    print(f"target: less than {TARGET_PERCENT:g} %: {'kept' if kept else 'missed'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
