"""A short look at this host before a run: is anybody at work on the CPUs that are to be measured?

As hyperfine warns of outliers that other programs may have caused, but before they do. It lasts some 400 ms, refuses
nothing, and says what to do.
"""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.affinity import format_cpus
from stealtime.lab.strangers.look import Seen, between, look
from stealtime.lab.strangers.processes import PROC
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Value

LOOK_S = 0.4
BUSY_FROM = 0.1
"""Of a CPU's time; a tick of 10 ms is 2.5 % of the look."""
_NAMED = 3
CODE = "busy_before"


@dataclass(frozen=True)
class BeforeRun:
    """What was seen."""

    seen: Seen
    load_average: float
    """Of the last minute."""
    stalled_percent: float | None
    """Of the last 10 s, that somebody waited for a CPU; None where the kernel does not tell."""


def look_before(
    cpus: Collection[int],
    proc: Path = PROC,
    wait: Callable[[float], None] = time.sleep,
    clock_ns: Callable[[], int] = time.monotonic_ns,
) -> BeforeRun:
    """Look at some CPUs for a moment; all but the first are for tests."""
    watched = tuple(sorted(set(cpus)))
    first = look(watched, proc, clock_ns)
    wait(LOOK_S)
    return BeforeRun(between(first, look(watched, proc, clock_ns), proc), _load_average(proc), _stalled_percent(proc))


def finding_of(before: BeforeRun) -> Finding | None:
    """Say that the host is busy where a run is to measure; None where it is not."""
    seen = before.seen
    whole_ns = seen.elapsed_ns * len(seen.cpus)
    shares = {}
    for name, reading in (("other programs", seen.strangers_ns), ("the host of this machine", seen.steal_ns)):
        if isinstance(reading, Value) and isinstance(reading.value, int) and whole_ns > 0:
            shares[name] = reading.value / whole_ns
    who, share = max(shares.items(), key=lambda pair: pair[1], default=("", 0.0))
    if share < BUSY_FROM:
        return None
    where = f"CPU{'s' if len(seen.cpus) > 1 else ''} {format_cpus(seen.cpus)}"
    names = ", ".join(f"{one.name} (pid {one.pid})" for one in seen.who[:_NAMED])
    busiest = f"; the busiest: {names}" if names and who == "other programs" else ""
    stalled = "" if before.stalled_percent is None else f", CPU pressure {before.stalled_percent:.0f} %"
    return Finding(
        code=CODE,
        level="limits",
        text=(
            f"the host is busy: {who} had {100 * share:.0f} % of {where} just before the run "
            f"(load {before.load_average:.1f}{stalled}){busiest}"
        ),
        hint="wait until they are done, stop them, or name a CPU that is idle with --cpu",
    )


def _load_average(proc: Path) -> float:
    try:
        return float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return os.getloadavg()[0]


def _stalled_percent(proc: Path) -> float | None:
    try:
        some = next(line for line in (proc / "pressure/cpu").read_text().splitlines() if line.startswith("some"))
        return float(some.split("avg10=")[1].split()[0])
    except (OSError, ValueError, IndexError, StopIteration):
        return None
