"""What tracing costs: a switch between two threads without an instance, with one that records nothing, and with events.

Two threads yield to each other on one CPU; each turn is one passage of the scheduler and one switch. `usual` are the
groups that every trace has, `all` also the timers and the scheduler's entry and exit. The difference of a turn's
median, divided by the events of a turn, is the cost of an event (target: under 1 us natively). Nothing of it is
subtracted from what stealtime measures.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pairs import arguments, spread, take_turns

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.tracing.host import host_tracer
from stealtime.wire.message import ExtraGroup, TraceRequest

TARGET_NS_AN_EVENT = 1_000.0
WITH_EVENTS: dict[str, list[ExtraGroup]] = {"usual": [], "all": ["timers", "scheduler"]}
SIDES = ("off", "empty", *WITH_EVENTS)


@dataclass(frozen=True)
class Setting:
    """The same for all sides."""

    cpu: int
    reader_cpu: int
    duration_s: int

    def turn(self) -> tuple[float, int]:
        """Let two threads yield to each other; give the median turn in ns, and how many there were."""
        argv = [str(find_agent()), "switch", "-t", "2", "--cpu", str(self.cpu), "--duration", f"{self.duration_s}s"]
        # Limits of the machine make the result invalid for other questions than this one.
        done = subprocess.run([*argv, "--json", "--quiet"], stdout=subprocess.PIPE, check=False)
        stats = json.loads(done.stdout)["stats"]
        return float(stats["p50_ns"]), int(stats["count"])


@contextmanager
def empty_instance() -> Iterator[None]:
    """Have an instance that is on, with no event enabled."""
    with tempfile.TemporaryDirectory() as mount:
        subprocess.run(["mount", "-t", "tracefs", "tracefs", mount], check=True)
        folder = Path(mount) / "instances" / f"benchmark-{os.getpid()}"
        try:
            folder.mkdir()
            try:
                (folder / "trace_clock").write_text("x86-tsc")
                (folder / "tracing_on").write_text("1")
                yield
            finally:
                folder.rmdir()
        finally:
            subprocess.run(["umount", mount], check=True)


async def measure(setting: Setting, side: str) -> tuple[float, float]:
    """Give the median turn in ns, and how many events came with a turn."""
    if side == "off":
        return (await asyncio.to_thread(setting.turn))[0], 0.0
    if side == "empty":
        with empty_instance():
            return (await asyncio.to_thread(setting.turn))[0], 0.0
    with tempfile.TemporaryDirectory() as folder:
        async with host_tracer(Path(folder), (setting.reader_cpu,)) as tracer:
            request = TraceRequest(cpus=[setting.cpu], buffer_bytes_per_cpu=64 << 20, extra_groups=WITH_EVENTS[side])
            if not await tracer.start(1, request):
                raise SystemExit(tracer.absent.text if tracer.absent is not None else "the host is not traced")
            absent = [name for name in WITH_EVENTS[side] if hasattr(tracer.groups.get(name), "absent")]
            if absent:
                print(f"without {', '.join(absent)}: {tracer.groups[absent[0]]}", file=sys.stderr)
            turn_ns, turns = await asyncio.to_thread(setting.turn)
            result = await tracer.stop(1, Path(folder))
            if result is None:
                raise SystemExit("the trace has gone")
            return turn_ns, (result.outcome.events + result.outcome.lost) / turns


def main() -> None:
    parser = arguments(__doc__, pairs=7)
    cpus = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cpu", type=int, default=cpus[-1])
    parser.add_argument("--duration", type=int, default=1, metavar="SECONDS")
    options = parser.parse_args()
    setting = Setting(options.cpu, cpus[0], options.duration)
    events: dict[str, list[float]] = {side: [] for side in SIDES}

    def take(side: str) -> float:
        turn_ns, events_a_turn = asyncio.run(measure(setting, side))
        events[side].append(events_a_turn)
        return turn_ns

    turns = list(take_turns(options.pairs, {side: partial(take, side) for side in SIDES}))
    document: dict[str, Any] = {
        "benchmark": "cost of tracing",
        "machine": f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}",
        "pairs": options.pairs,
        "turn_ns": {side: spread([turn[side] for turn in turns]) for side in SIDES},
        "empty_instance_ns_a_turn": spread([turn["empty"] - turn["off"] for turn in turns]),
        "events_a_turn": {side: spread(events[side]) for side in WITH_EVENTS},
        "ns_an_event": {
            side: spread([(turn[side] - turn["off"]) / events[side][pair] for pair, turn in enumerate(turns)])
            for side in WITH_EVENTS
        },
        "target_ns_an_event": TARGET_NS_AN_EVENT,
    }
    if options.json:
        print(json.dumps(document, indent=1))
        return
    print(f"{document['benchmark']}: {options.pairs} rounds in turn; min / median / max ({document['machine']})")
    rows = [(f"a turn, tracing {side}", document["turn_ns"][side], "ns") for side in SIDES]
    rows.append(("an empty instance, a turn", document["empty_instance_ns_a_turn"], "ns"))
    rows += [(f"events a turn, {side}", document["events_a_turn"][side], "") for side in WITH_EVENTS]
    rows += [(f"an event, {side}", document["ns_an_event"][side], "ns") for side in WITH_EVENTS]
    for name, values, unit in rows:
        print(f"{name:28}" + "".join(f"{values[end]:10.1f}" for end in ("min", "median", "max")) + f" {unit}")
    print(f"target: under {TARGET_NS_AN_EVENT:.0f} ns an event")


if __name__ == "__main__":
    main()
