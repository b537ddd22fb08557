"""How often are the verdicts of ``stealtime advise`` wrong? Judges recorded situations, or records them here.

Real guests of User-Mode Linux and TCG share CPUs in some seventy ways, among them many that work now and then. Each was
asked how much longer its work took than alone (``capacity_situations/measuring.py``): that, and no counter of the host,
says what is due. Limits were chosen on two thirds of them; the rates of the other third are those that count. It fails
where they contradict what docs/capacity.md claims.
"""

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

from capacity_situations.situations import SITUATIONS, Situation
from capacity_situations.tally import describe, interval, tallied
from watched_guests import prefer_thread

from stealtime.capacity.rules import RuleBook, load_rules

DATA = Path(__file__).parent / "capacity_situations" / "measured.jsonl"
MOST_ALARMS = 0.05
MOST_MISSED = 0.05
"""What docs/capacity.md claims."""


def lines_of(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read_text().splitlines()] if data.exists() else []


def measure(data: Path, within_s: float) -> None:
    """Measure what the file does not hold yet, as far as the time goes."""
    # With all that boots guests; to judge recordings takes none of it.
    from capacity_situations.measuring import measure_all

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


def told(lines: list[dict[str, Any]], rules: RuleBook) -> tuple[list[str], bool]:
    """Give the rates of both parts, and whether those that were held out contradict what is claimed."""
    text: list[str] = []
    contradicted = False
    for name, is_held_out in (("chosen on", False), ("held out", True)):
        found = tallied([line for line in lines if line["held_out"] is is_held_out], rules)
        text.append(f"{name}: {sum(line['held_out'] is is_held_out for line in lines)} situations")
        for what, tally in (("guests", found.guests), ("hosts", found.hosts)):
            text += [f"  {line}" for line in describe(what, tally)]
            if is_held_out:
                contradicted |= interval(tally.alarms, tally.quiet)[0] > MOST_ALARMS
                contradicted |= interval(tally.missed, tally.due)[0] > MOST_MISSED
    return text, contradicted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="JSON lines, default %(default)s")
    parser.add_argument("--measure", type=float, metavar="SECONDS", help="measure what it does not hold, for so long")
    parser.add_argument("--rules", type=Path, help="judge by other rules")
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.data, options.measure)
    lines = lines_of(options.data)
    if not lines:
        parser.error(f"--data {options.data}: it holds no situation; --measure SECONDS records some")
    text, contradicted = told(lines, load_rules(options.rules))
    print("\n".join(text))
    print(
        f"at most {MOST_ALARMS:.0%} false alarms, at most {MOST_MISSED:.0%} missed: "
        f"{'contradicted' if contradicted else 'not contradicted'}"
    )
    return 1 if contradicted else 0


if __name__ == "__main__":
    sys.exit(main())
