"""Where guests may run, and what stands idle there and elsewhere; pure."""

from collections.abc import Mapping

from stealtime.capacity.counters.topology import SECOND_THREAD
from stealtime.capacity.use import CpuUse, Figure, GuestUse, Use
from stealtime.vocabulary.readings import Absent

IDLE_PERCENT = 60.0
"""A CPU that is idle at least so much can take a virtual CPU: the rest of the 40 % of an over-provisioned host."""


def idle_elsewhere(use: Use, guest: GuestUse) -> dict[int, float] | Absent:
    """Give the CPUs on which a guest's virtual CPUs may not run and that stand idle, with how much they do, in
    percent."""
    if isinstance(guest.allowed_cpus, Absent):
        return guest.allowed_cpus
    if isinstance(use.cpus, Absent):
        return use.cpus
    return idle_of({cpu: row for cpu, row in use.cpus.items() if cpu not in guest.allowed_cpus})


def idle_of(cpus: Mapping[int, CpuUse]) -> dict[int, float]:
    idle = {}
    for cpu, row in cpus.items():
        if isinstance(row.busy_percent, Absent):
            continue  # of a CPU of which nothing is known it cannot be said that it is idle
        stolen = 0.0 if isinstance(row.steal_percent, Absent) else row.steal_percent
        idle_percent = 100 - row.busy_percent - stolen
        if idle_percent >= IDLE_PERCENT:
            idle[cpu] = idle_percent
    return idle


def idle_elsewhere_percent(use: Use, guest: GuestUse) -> Figure:
    """Give how much CPU stands idle where a guest's virtual CPUs may not run, in percent of one CPU.

    A thread of a core whose other thread works, or is counted already, adds a quarter.
    """
    idle = idle_elsewhere(use, guest)
    return idle if isinstance(idle, Absent) else _worth(use, idle)


def _worth(use: Use, idle: Mapping[int, float]) -> float:
    worth, counted = 0.0, set[int]()
    for cpu, percent in idle.items():
        others = use.topology.siblings.get(cpu, frozenset()) - {cpu}
        is_second = any(other not in idle or other in counted for other in others)
        worth += SECOND_THREAD * percent if is_second else percent
        counted.add(cpu)
    return worth


def demand_if_spread_percent(use: Use, guest: GuestUse) -> Figure:
    """Give what is wanted of the CPUs of a guest, in percent of them and of those that stand idle elsewhere.

    At 100 % all that is wanted would fit, if it could be cut into pieces of any size.
    """
    idle = idle_elsewhere(use, guest)
    if isinstance(idle, Absent):
        return idle
    assert not isinstance(guest.allowed_cpus, Absent) and not isinstance(use.cpus, Absent)  # noqa: S101, PT018
    own = guest.allowed_cpus & use.cpus.keys()
    if not own:
        return Absent(absent="none of the CPUs on which it may run is online")
    busy_percent = 0.0
    for cpu in own:
        row = use.cpus[cpu].busy_percent
        if isinstance(row, Absent):
            return row
        busy_percent += row
    waiting_percent = sum(
        vcpu.wait_percent
        for other in use.guests.values()
        if other.unreadable is None and not isinstance(other.allowed_cpus, Absent) and other.allowed_cpus & own
        for vcpu in other.vcpus.values()
    )
    return 100 * (busy_percent + waiting_percent) / (100 * len(own) + _worth(use, idle))
