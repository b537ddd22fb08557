"""Do sets that are just schedulable keep their deadlines for a minute? And how near do responses come to their bounds?

The whole chain on this machine: `stealtime run` measures overheads (`rtload`, traced) and the supply (`tick`), sets
are drawn and their costs enlarged until `stealtime sched analyze` would refuse any more, and run natively. What exceeds
a bound is printed with what the kernel's trace shows of that job: how long its thread was on the CPU undisturbed beyond
its cost (the CPU stood still: natively its host had it), how much longer overheads were than those that the analysis
charged, and what neither explains, which would contradict the analysis. A set of 1.05 CPUs must miss.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/rigs"))

from deadline_chain import Chain, Observed

SLOWER = (1, 4)
"""A minute is long enough for periods of a second, where the supply rules out shorter ones."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=2, help="default 2")
    parser.add_argument("--observe", type=int, default=30, metavar="SECONDS", help="overheads and supply, default 30")
    parser.add_argument("--duration", type=int, default=60, metavar="SECONDS", help="of each set, default 60")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of sentences")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(Chain(Path(folder)), options)


def measure(chain: Chain, options: argparse.Namespace) -> int:
    observed = chain.observe(options.observe)
    edges = chain.edge_sets(observed, options.sets, SLOWER)
    refused = [edge.name for edge in edges if chain.verdict(observed, edge)["verdict"] != "schedulable"]
    ran = chain.run_sets(observed, edges, options.duration, over_s=5)
    kept = ran.kept
    unexplained = [late.text for one in kept for late in one.exceeded if late.unexplained_ns > 0]
    machine = f"{os.cpu_count()} CPUs, {platform.release()}, load {os.getloadavg()[0]:.1f}"
    if options.json:
        document = {
            "benchmark": "kept deadlines",
            "machine": machine,
            "charged_ns": observed.charged,
            "refused": refused,
            "sets": [asdict(one) for one in kept],
            "over": {"missed": ran.over_missed, "released": ran.over_released},
            "unexplained": unexplained,
        }
        print(json.dumps(document, indent=1))
    else:
        print(f"kept deadlines: {len(kept)} of {options.sets} sets, {options.duration} s each ({machine})")
        print(_under(observed, options.observe))
        for one in kept:
            print(one.text)
        print(f"utilization 1.05: {ran.over_missed} of {ran.over_released} jobs missed")
        for text in unexplained:
            print(f"contradicts the analysis: {text}")
    return int(bool(unexplained or refused or not ran.over_missed))


def _under(observed: Observed, seconds: int) -> str:
    return f"under what was measured in {seconds} s each: {observed.text}"


if __name__ == "__main__":
    sys.exit(main())
