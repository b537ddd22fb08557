"""Watch a path that is silent at random moments, by ``stealtime blackout`` and by ping."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/rigs"))

from busy_cpus import mortal
from exact_gaps import Gap
from silent_path import PORT, PRIORITY, SERVER, SilentPath, kept_awake, silent_path

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
MS = 1_000_000

SETTLE_S = 1.5
"""All ways have been answered, and have shown what is usual."""

Manner = Literal["dropped", "held"]


@dataclass(frozen=True)
class Watching:
    """How a path is watched, and when it is silent."""

    interval: str
    tcp: bool
    length_ms: float
    count: int
    manner: Manner
    pauses_ms: tuple[float, float]
    """Between two gaps."""
    seed: int
    awake: bool
    """Whether idle CPUs are kept from halting."""
    quiet_s: float = 1.0
    """Without a gap, at the end."""


@dataclass(frozen=True)
class PingGap:
    """A time in which ping had no answer, or a late one."""

    at_ns: int
    length_ns: int


@dataclass(frozen=True)
class Seen:
    """What everybody says about the same time."""

    gaps: list[Gap]
    late: int
    """Gaps that this process ordered too late to know their truth."""
    document: dict[str, Any]
    ping: list[PingGap] | None
    seconds: float
    cpu_s: float
    """What the client's process took of the CPUs."""


def watch(watching: Watching) -> Seen:
    """Be silent, and collect what was seen."""
    with kept_awake() if watching.awake else nullcontext(), silent_path(AGENT) as path:
        at = f"{SERVER}:{PORT}"
        argv = [*path.client, str(AGENT), "blackout", "--json", "--quiet", "--until-closed", "--wait", "10s"]
        argv += ["-i", watching.interval, "-p", str(PRIORITY), "--udp", at, "--ping", SERVER]
        argv += ["--tcp", at] if watching.tcp else []
        began = time.monotonic()
        before = os.times()
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=mortal) as client:
            ping = _start_ping(path.client)
            time.sleep(SETTLE_S)
            orders = _be_silent(path, watching)
            time.sleep(watching.quiet_s)
            seconds = time.monotonic() - began
            output, _ = client.communicate()
        spent = os.times()
        cpu_s = spent.children_user + spent.children_system - before.children_user - before.children_system
        gaps = [gap for gap in orders if gap is not None]
        return Seen(gaps, len(orders) - len(gaps), json.loads(output), _end_ping(ping), seconds, cpu_s)


def _be_silent(path: SilentPath, watching: Watching) -> list[Gap | None]:
    chance = random.Random(watching.seed)  # noqa: S311 - only moments are drawn
    length_ns = round(watching.length_ms * MS)
    orders: list[Gap | None] = []
    for _ in range(watching.count):
        # To the nanosecond: gaps have no place of their own between two probes.
        start_ns = time.monotonic_ns() + round(chance.uniform(*watching.pauses_ms) * MS)
        if watching.manner == "held":
            orders.append(path.hold(start_ns, length_ns))
            continue
        dropped = path.gaps.dropped
        gap = path.drop(start_ns, length_ns)
        if path.gaps.dropped == dropped:
            raise RuntimeError(f"no frame was dropped in {watching.length_ms} ms: there is no gap to be found")
        orders.append(gap)
    return orders


def _start_ping(inside: tuple[str, ...]) -> "subprocess.Popen[str] | None":
    if shutil.which("ping") is None:
        return None
    argv = [*inside, "ping", "-n", "-D", "-i", "0.1", SERVER]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, preexec_fn=mortal)


def _end_ping(ping: "subprocess.Popen[str] | None") -> list[PingGap] | None:
    """Give the gaps that ping shows: numbers that were not answered, as 100 ms each; or answers that came late."""
    if ping is None:
        return None
    ping.send_signal(signal.SIGINT)
    output, _ = ping.communicate()
    shift_ns = time.time_ns() - time.monotonic_ns()
    answers: list[tuple[int, int, float]] = []
    for line in output.splitlines():
        if "icmp_seq=" in line and line.startswith("["):
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            stamp_ns = int(float(line[1 : line.index("]")]) * 1e9) - shift_ns
            answers.append((int(words["icmp_seq"]), stamp_ns, float(words["time"])))
    gaps = []
    for (before, at_ns, _), (after, _, trip_ms) in pairwise(answers):
        missing_ns = (after - before - 1) * 100 * MS
        length_ns = missing_ns or (round(trip_ms * MS) if trip_ms > 3 else 0)
        if length_ns:
            gaps.append(PingGap(at_ns, length_ns))
    return gaps
