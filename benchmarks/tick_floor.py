"""The floor of an empty tick loop against oslat's (rt-tests), on the same CPU.

Both read the time-stamp counter in a busy loop and look at the difference. oslat counts it in a histogram of 1 us
buckets; ours keeps every difference, and with it its time. What a turn costs is the time measured over the turns made:
oslat's own minimum has a resolution of 1 us and says nothing here. Both run at SCHED_FIFO 80 under whatever RT
throttling the machine has.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from pairs import Ratio, arguments, take_turns

PRIORITY = 80
AGENT = Path(sys.executable).with_name("stealtime-agent")


def ours_ns(cpu: int, duration_s: int) -> float:
    argv = [str(AGENT), "tick", "--iterations", "0", "--cpu", str(cpu), "--duration", f"{duration_s}s"]
    argv += ["-p", str(PRIORITY), "--json", "--quiet"]
    document = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    stats = document["stats"]
    return float(stats["span_s"] * 1e9 / stats["count"])


def oslat_ns(cpu: int, duration_s: int) -> float:
    main_cpu = min(os.sched_getaffinity(0) - {cpu}, default=cpu)
    argv = ["oslat", "-c", str(cpu), "-C", str(main_cpu), "-D", str(duration_s), "-f", str(PRIORITY)]
    text = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, text=True).stdout
    turns = sum(int(count) for count in re.findall(r"^\s*\d{3} \(us\):\s+(\d+)", text, re.MULTILINE))
    if not turns:
        raise SystemExit(f"oslat printed no histogram:\n{text}")
    return duration_s * 1e9 / turns


def main() -> None:
    parser = arguments(__doc__, pairs=7)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--duration", type=int, default=2, metavar="SECONDS")
    options = parser.parse_args()
    sides = {
        "stealtime-agent tick": lambda: ours_ns(options.cpu, options.duration),
        "oslat": lambda: oslat_ns(options.cpu, options.duration),
    }
    pairs = tuple(take_turns(options.pairs, sides))
    Ratio("floor of an empty tick loop", "ns a turn", 1.0, pairs).print(as_json=options.json)


if __name__ == "__main__":
    main()
