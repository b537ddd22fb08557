"""How far from the truth is the predicted stretch of work that shares CPUs with other work?

Measures mixes of co-located work: natively in CPU groups, in guests of User-Mode Linux and in guests under TCG, each
piece of work alone just before or after the mix. Models in which nothing is fitted are judged on all mixes, beside
simple baselines and the error that a perfect model would have; an interval is judged by those of all other mixes.
Without ``--measure`` the recording is judged; an interrupted measuring goes on with the next mix.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from co_located.judging import cases
from co_located.live import live_cases
from co_located.measuring import Effort, measure_pool
from co_located.mixes import POOLS, Mix, Pool, mixes
from co_located.verdict import document, live_toml_of, tables, toml_of

from stealtime.capacity.prediction.accuracy import FILE as LIVE_FILE
from stealtime.lab.host import read_host_facts
from stealtime.lab.processors import read_cpu_sets
from stealtime.studies.stretch.analysis.accuracy import FILE, accuracies
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value

DATA = Path(__file__).parent / "co_located" / "measured.jsonl"
COUNT = 12
"""Mixes of each pool."""
EFFORT = Effort(window_s=5.0, repetitions=2)


def lines_of(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read_text().splitlines()] if data.exists() else []


def machine() -> str:
    model = read_host_facts(read_cpu_sets().inherited[0])["cpu_model"]
    return (
        f"{os.cpu_count()} CPUs ({model.value if isinstance(model, Value) else 'unknown'}), Linux {platform.release()}"
    )


def in_turn(pool: Pool) -> list[tuple[Mix, int]]:
    """Give a pool's mixes with the number of each repetition, all mixes before any again."""
    return [(mix, number) for number in range(1, EFFORT.repetitions + 1) for mix in mixes(pool, COUNT)]


def append(data: Path, line: Mapping[str, Any]) -> None:
    """Add a line, in a new file after one that says when and where."""
    head = {"measured": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    with data.open("a") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in ([line] if file.tell() else [head, line]))


async def measure(data: Path, pools: Iterable[Pool]) -> None:
    """Measure the mixes that the file does not hold yet, each line as soon as it is known."""
    cpus = read_cpu_sets().usable
    there = {(line.get("mix"), line.get("repetition")) for line in lines_of(data)}
    for pool in pools:
        todo = [(mix, number) for mix, number in in_turn(pool) if (mix.name, number) not in there]
        if not todo:
            continue
        if pool.cpus > len(cpus):
            raise SystemExit(f"the pool {pool.name} needs {pool.cpus} CPUs, and {len(cpus)} may be used")
        began = time.monotonic()
        try:
            async for line in measure_pool(pool, todo, cpus[-pool.cpus :], EFFORT.window_s):
                append(data, line)
        except StealtimeError as error:
            raise SystemExit(f"{pool.name}: {error.message}\nhint: {error.hint or 'see stealtime doctor'}") from error
        print(f"{pool.name}: {len(todo)} blocks in {time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="JSON lines of what was measured, default %(default)s")
    parser.add_argument("--measure", action="store_true", help="measure what the data lack: about an hour in all")
    parser.add_argument("--pool", action="append", choices=[pool.name for pool in POOLS], help="only this; repeatable")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the tables")
    parser.add_argument(
        "--write", action="store_true", help=f"write the errors to {FILE.name} of the study and of advise"
    )
    options = parser.parse_args()
    if not options.data.parent.is_dir():
        parser.error(f"--data {options.data}: there is no folder {options.data.parent}")
    if options.measure:
        pools = [pool for pool in POOLS if options.pool is None or pool.name in options.pool]
        asyncio.run(measure(options.data, pools))
    lines = lines_of(options.data)
    if not lines:
        parser.error(f"--data {options.data}: nothing was measured yet (--measure)")
    blocks = [line for line in lines if "guests" in line]
    found = document(cases(blocks), live_cases(blocks), blocks) | lines[0]
    print(json.dumps(found, indent=1) if options.json else tables(found))
    if options.write:
        FILE.write_text(toml_of(found, {name: one.factor for name, one in accuracies().items()}))
        LIVE_FILE.write_text(live_toml_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
