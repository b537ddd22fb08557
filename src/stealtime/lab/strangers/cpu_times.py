"""What ``/proc/stat`` tells of single CPUs: how long programs had them, and how long the host's own host.

Documented in proc_stat(5), in clock ticks. Interrupts stand in columns of their own and are no program's.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.strangers.processes import PROC, TICK_NS

_PROGRAMS = slice(1, 4)
"""``user`` (in which a guest's time is), ``nice`` and ``system``; column 0 is the name."""
_STEAL = 8
"""Since Linux 2.6.11."""


@dataclass(frozen=True)
class CpuTimes:
    """Some CPUs together, since boot."""

    programs_ns: int
    steal_ns: int | None
    """None where the kernel does not count it."""


def parse_cpu_times(stat: str, cpus: Collection[int]) -> CpuTimes | None:
    """Read the lines of some CPUs; None where one of them has none, as if it were offline."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [fields for line in stat.splitlines() if (fields := line.split()) and fields[0] in wanted]
    if len(rows) != len(wanted):
        return None
    has_steal = all(len(row) > _STEAL for row in rows)
    return CpuTimes(
        programs_ns=sum(int(column) for row in rows for column in row[_PROGRAMS]) * TICK_NS,
        steal_ns=sum(int(row[_STEAL]) for row in rows) * TICK_NS if has_steal else None,
    )


def read_cpu_times(cpus: Collection[int], proc: Path = PROC) -> CpuTimes | None:
    """Read it now; None where it cannot be read."""
    try:
        return parse_cpu_times((proc / "stat").read_text(), cpus)
    except OSError:
        return None
