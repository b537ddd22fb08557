"""How often are the verdicts of ``stealtime advise`` wrong? Judges recorded situations, or records them here."""

import argparse
import asyncio
import json
import os
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/rigs"))

from capacity_situations.measuring import measure_all
from capacity_situations.situations import SITUATIONS, Situation
from watched_guests import prefer_thread

DATA = Path(__file__).parent / "capacity_situations" / "measured.jsonl"


def lines_of(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read_text().splitlines()] if data.exists() else []


def measure(data: Path, within_s: float) -> None:
    """Measure what the file does not hold yet, as far as the time goes."""
    there = {line["situation"] for line in lines_of(data)}
    end_s = time.monotonic() + within_s
    prefer_thread(os.getpid())  # guests that take all CPUs would leave nothing to who watches them

    def alike(one: Situation) -> tuple[str, int, bool]:
        return one.platform, one.vcpus, one.quota_percent is not None

    cpus = tuple(sorted(os.sched_getaffinity(0)))
    for _, same in groupby((one for one in SITUATIONS if one.name not in there), alike):
        left = list(same)
        asyncio.run(measure_all(left, cpus, data, end_s))
        if time.monotonic() > end_s:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="JSON lines, default %(default)s")
    parser.add_argument("--measure", type=float, metavar="SECONDS", help="measure what it does not hold, for so long")
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.data, options.measure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
