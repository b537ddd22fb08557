"""How often is a quiet host called busy, and a busy one quiet? The thresholds of `campaigns/strangers.py` stand on it.

Trials of 1 s natively, under User-Mode Linux and QEMU's TCG, on a host with nothing else to do, beside a program that
uses 3 to 100 % of the measured CPU in turns of 50 ms, and beside compilers that run anywhere. What was seen of each
trial is kept in a file, so that the thresholds can be chosen again without the machine: that is what the program does
unless it is told to measure.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busy.judging import tables
from busy.measuring import Rounds, measure

from stealtime.campaigns.strangers import LIMITS_FROM, NOT_ALONE_FROM

DATA = Path(__file__).parent / "busy" / "measured.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="where each trial is kept, a line each")
    parser.add_argument("--measure", type=int, default=0, metavar="ROUNDS", help="first measure so many rounds more")
    parser.add_argument("--trial", type=float, default=1.0, metavar="S", help="the length of a trial")
    parser.add_argument("--json", action="store_true", help="print one document instead of tables")
    options = parser.parse_args()
    if options.measure:
        with options.data.open("a") as file:

            def keep(line: dict[str, Any]) -> None:
                now = datetime.now(UTC).isoformat(timespec="seconds")
                file.write(json.dumps({"measured_at": now, **line}) + "\n")
                file.flush()

            measure(Rounds(options.measure, round(options.trial * 1e9), time.time_ns()), keep)
    lines = [json.loads(line) for line in options.data.read_text().splitlines()]
    document, text = tables(lines, LIMITS_FROM, NOT_ALONE_FROM)
    print(json.dumps(document, indent=2) if options.json else text)


if __name__ == "__main__":
    main()
