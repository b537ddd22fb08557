"""The weight of a guest's CPU group: how much it gets of the CPUs when others want them too.

libvirt, systemd and Proxmox put each guest into a group of its own. All its virtual CPUs then share the weight of that
group, however many they are. Guests without such a group compete thread by thread.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from stealtime.capacity.guest import Guest, GuestThread
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.quotas import group_of
from stealtime.lab.platforms.share import DEFAULT_SHARES, DEFAULT_WEIGHT

Key = tuple[int, int]
Threads = Mapping[Key, tuple[Guest, tuple[GuestThread, ...]]]


def group_weights(threads: Threads, hierarchy: CpuHierarchy | None, proc: Path) -> dict[Key, float]:
    """Give the weights of guests that have a CPU group of their own; 1 is the default weight of a group or a thread.

    Args:
        threads: Of all guests.
        hierarchy: Of the CPU groups; None if there is none.
        proc: The kernel's ``/proc``.
    """
    if hierarchy is None:
        return {}
    groups = {key: found for key, (guest, _) in threads.items() if (found := _group(guest, hierarchy, proc))}
    weights = {}
    for key, group in groups.items():
        others = [other for their_key, other in groups.items() if their_key != key]
        own = _widest_own(group, others, hierarchy.root)
        if own is not None and (weight := _weight(own, hierarchy)) is not None:
            weights[key] = weight
    return weights


def _group(guest: Guest, hierarchy: CpuHierarchy, proc: Path) -> Path | None:
    try:
        return group_of((proc / str(guest.pid) / "cgroup").read_text(), hierarchy)
    except OSError:
        return None  # it ended meanwhile


def _widest_own(group: Path, others: Iterable[Path], root: Path) -> Path | None:
    """Give the highest group above a guest's that no other guest is in: there they compete with each other."""
    shared = {one for other in others for one in (other, *other.parents)}
    own = [one for one in (group, *group.parents) if one.is_relative_to(root) and one != root and one not in shared]
    return own[-1] if own else None


def _weight(group: Path, hierarchy: CpuHierarchy) -> float | None:
    file, default = ("cpu.weight", DEFAULT_WEIGHT) if hierarchy.version == 2 else ("cpu.shares", DEFAULT_SHARES)
    try:
        return int((group / file).read_text()) / default
    except (OSError, ValueError):
        return None
