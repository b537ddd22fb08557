"""How far from the truth is the predicted stretch of work that shares CPUs with other work?

Measures mixes of co-located work, natively in CPU groups and in guests of User-Mode Linux, each piece of work alone and
all of them together. On some mixes intervals are found, on the others all models are judged. What was measured stays
in a file: what is there is not measured again, so an interrupted run goes on with the next pool.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from co_located.judging import cases
from co_located.measuring import Effort, measure_pool
from co_located.mixes import POOLS, Role, mixes
from co_located.verdict import document, tables, toml_of

from stealtime.lab.host import read_host_facts
from stealtime.lab.processors import read_cpu_sets
from stealtime.studies.stretch.analysis.accuracy import FILE
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value

DATA = Path(__file__).parent / "co_located" / "measured.jsonl"
COUNTS: Mapping[Role, int] = {"calibration": 8, "held-out": 8}
"""Mixes of each pool."""
EFFORT = Effort(mix_s=1.3, alone_s=0.5, alone_times=3, repetitions=3)


def lines_of(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read_text().splitlines()] if data.exists() else []


def machine() -> str:
    model = read_host_facts(read_cpu_sets().inherited[0])["cpu_model"]
    return (
        f"{os.cpu_count()} CPUs ({model.value if isinstance(model, Value) else 'unknown'}), Linux {platform.release()}"
    )


def measure(data: Path) -> None:
    """Measure the pools that the file does not hold yet."""
    cpus = read_cpu_sets().usable
    there = {line["pool"] for line in lines_of(data)}
    for pool in POOLS:
        if pool.name in there:
            continue
        if pool.cpus > len(cpus):
            raise SystemExit(f"the pool {pool.name} needs {pool.cpus} CPUs, and {len(cpus)} may be used")
        began = time.monotonic()
        drawn = mixes(pool, COUNTS)
        try:
            lines = asyncio.run(measure_pool(pool, drawn, cpus[-pool.cpus :], EFFORT))
        except StealtimeError as error:
            raise SystemExit(f"{pool.name}: {error.message}\nhint: {error.hint or 'see stealtime doctor'}") from error
        head = {"pool": pool.name, "measured": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
        # Whole or not there: what was interrupted is measured again.
        with data.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in [head, *lines])
        print(f"{pool.name}: {len(drawn)} mixes in {time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="JSON lines; a new file is measured, default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the tables")
    parser.add_argument("--write", action="store_true", help=f"write the errors to the study's {FILE.name}")
    options = parser.parse_args()
    if not options.data.parent.is_dir():
        parser.error(f"--data {options.data}: there is no folder {options.data.parent}")
    measure(options.data)
    lines = lines_of(options.data)
    heads = [line for line in lines if "machine" in line]
    found = document(cases([line for line in lines if "guests" in line]))
    found |= {name: ", ".join(sorted({head[name] for head in heads})) for name in ("measured", "machine")}
    print(json.dumps(found, indent=1) if options.json else tables(found))
    if options.write:
        FILE.write_text(toml_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
