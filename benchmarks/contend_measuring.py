"""What ``contend`` loses to measuring each of its iterations: the same work with and without it, in turn.

The elapsed time of the whole work is compared. One task on one CPU does no I/O, so that nothing hides the measuring.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from pairs import Ratio, arguments, take_turns

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
TARGET = 1.01


def elapsed_s(cpu: int, iterations: int, *options: str) -> float:
    argv = [str(AGENT), "contend", "--cpu", str(cpu), "--tasks", "1", "--io", "0s", "--iterations", str(iterations)]
    document = json.loads(subprocess.run([*argv, "--json", *options], stdout=subprocess.PIPE, check=True).stdout)
    return float(document["elapsed_s"])


def main() -> None:
    parser = arguments(__doc__, pairs=9)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--iterations", type=int, default=150)
    options = parser.parse_args()
    sides = {
        "measured": lambda: elapsed_s(options.cpu, options.iterations),
        "bare": lambda: elapsed_s(options.cpu, options.iterations, "--bare"),
    }
    pairs = tuple(take_turns(options.pairs, sides))
    Ratio("contend with each iteration measured", "s", TARGET, pairs).print(as_json=options.json)


if __name__ == "__main__":
    main()
