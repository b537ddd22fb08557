"""How long the quotas of CPU groups held a guest's virtual CPUs back: cgroups of both versions.

A quota can hold in any group above a thread, and libvirt puts each virtual CPU into one of its own. What the kernel
counts for a group (``throttled_usec``, ``throttled_time``) is of all CPUs together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.quotas import Quota
from stealtime.lab.platforms.throttling import parse_throttling
from stealtime.vocabulary.readings import Absent


@dataclass(frozen=True, slots=True)
class Throttled:
    """How long the quotas of a guest's CPU groups have held its threads back, all its virtual CPUs together."""

    held_ns: Mapping[Path, int]
    """By group, since that was made."""
    quota_cpus: float
    """What the tightest quota allows, in CPUs."""


def read_throttled(quotas: Sequence[Quota], hierarchy: CpuHierarchy) -> Throttled | Absent | None:
    """Read what the quotas have counted; None without any quota."""
    held_ns: dict[Path, int] = {}
    for quota in quotas:
        try:
            counted = parse_throttling((quota.group / "cpu.stat").read_text(), hierarchy.version).throttled_ns
        except OSError as error:
            return Absent(absent=f"{quota.group / 'cpu.stat'}: {error.strerror}")
        if isinstance(counted, Absent):
            return counted
        assert isinstance(counted.value, int)  # noqa: S101 - for the type checker
        held_ns[quota.group] = counted.value
    if not quotas:
        return None
    return Throttled(held_ns, min(quota.cpus for quota in quotas))


def held_between_ns(before: Throttled, after: Throttled) -> int | Absent:
    """Give how long quotas held a guest back between two readings.

    Where quotas lie in each other the one that held longest is told: a thread waits for both at once. A group that is
    new has counted before, for whoever was in it; one that was made anew counts from 0.
    """
    if before.held_ns.keys() != after.held_ns.keys():
        return Absent(absent="its quotas changed meanwhile")
    gained = {group: count - before.held_ns[group] for group, count in after.held_ns.items()}
    if (least := min(gained.values())) < 0:
        return Absent(absent=f"the time held back by its quota went backwards, by {-least} ns: the group is a new one")
    innermost = [one for one in gained if not any(one in other.parents for other in gained)]
    return max(sum(gained[one] for one in innermost), *gained.values())
