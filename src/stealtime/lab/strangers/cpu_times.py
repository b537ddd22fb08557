"""What ``/proc/stat`` tells of single CPUs: how long they were idle, and how long the host's own host had them.

Documented in proc_stat(5), in clock ticks. A kernel whose tick stops on idle CPUs (``NO_HZ``) measures ``idle`` and
``iowait``; ``user`` and ``system`` are whoever had the CPU when the tick came, which misses those who always run
between two ticks: of a stranger that used 9 % beside a guest that woke up every millisecond they held nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.strangers.processes import PROC, TICK_NS

_IDLE, _IOWAIT = 4, 5
"""Of a line ``cpuN``, the name being column 0."""
_STEAL = 8
"""Since Linux 2.6.11."""


@dataclass(frozen=True)
class CpuTimes:
    """Some CPUs together, since boot."""

    idle_ns: int
    steal_ns: int | None
    """None where the kernel does not count it."""


def parse_cpu_times(stat: str, cpus: Collection[int]) -> CpuTimes | None:
    """Read the lines of some CPUs; None where one of them has none, as if it were offline."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [fields for line in stat.splitlines() if (fields := line.split()) and fields[0] in wanted]
    if len(rows) != len(wanted) or any(len(row) <= _IOWAIT for row in rows):
        return None
    has_steal = all(len(row) > _STEAL for row in rows)
    return CpuTimes(
        idle_ns=sum(int(row[_IDLE]) + int(row[_IOWAIT]) for row in rows) * TICK_NS,
        steal_ns=sum(int(row[_STEAL]) for row in rows) * TICK_NS if has_steal else None,
    )


def read_cpu_times(cpus: Collection[int], proc: Path = PROC) -> CpuTimes | None:
    try:
        return parse_cpu_times((proc / "stat").read_text(), cpus)
    except OSError:
        return None
