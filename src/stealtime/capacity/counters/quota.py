"""How long the quotas of CPU groups held a guest's virtual CPUs back: cgroups of both versions.

A quota can hold in any group above a thread, and libvirt puts each virtual CPU into one of its own. What the kernel
counts for a group (``throttled_usec``, ``throttled_time``) is of all CPUs together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.quotas import Quota
from stealtime.lab.platforms.throttling import parse_throttling
from stealtime.vocabulary.readings import Absent


@dataclass(frozen=True, slots=True)
class Throttled:
    """How long the quotas of a guest's CPU groups have held its threads back, all its virtual CPUs together."""

    total_ns: int
    quota_cpus: float
    """What the tightest quota allows, in CPUs."""


def read_throttled(quotas: Sequence[Quota], hierarchy: CpuHierarchy) -> Throttled | Absent | None:
    """Add up what the quotas have counted; None without any quota.

    Where quotas lie in each other the one that held longest is told: a thread waits for both at once.
    """
    longest: dict[Path, int] = {}
    for quota in quotas:
        try:
            counted = parse_throttling((quota.group / "cpu.stat").read_text(), hierarchy.version).throttled_ns
        except OSError as error:
            return Absent(absent=f"{quota.group / 'cpu.stat'}: {error.strerror}")
        if isinstance(counted, Absent):
            return counted
        assert isinstance(counted.value, int)  # noqa: S101 - for the type checker
        longest[quota.group] = counted.value
    if not quotas:
        return None
    innermost = [one for one in longest if not any(one in other.parents for other in longest)]
    total_ns = max(sum(longest[one] for one in innermost), *longest.values())
    return Throttled(total_ns, min(quota.cpus for quota in quotas))
