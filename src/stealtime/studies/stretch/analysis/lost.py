"""Where the seconds went that the work took longer than in its base.

A machine's elapsed time T on v CPUs is (B + E) / v: B is what its tasks counted as CPU time, E the rest of its CPUs'
time. Both are split by what was measured, for the machine and for its base alike, so that the differences of the parts
add up to the difference of the elapsed times. What no measurement accounts for is the rest, and is told.
"""

from collections.abc import Mapping
from statistics import fmean

from stealtime.lab.platforms.traits import traits_of
from stealtime.studies.stretch.analysis.model import LostSeconds, Repetition, StretchCell

PARTS: Mapping[str, str] = {
    "fewer_cpus": "fewer CPUs than natively",
    "quota": "its own quota",
    "cpu_wait": "waiting for a CPU of the host",
    "host_steal": "the host's own host",
    "memory": "allocating and filling memory",
    "execution": "executing the same work more slowly",
    "lock_wait": "idle, waiting for the lock",
    "io": "idle in simulated I/O",
    "uneven": "idle at the end, fewer tasks than CPUs",
}
"""In the order in which they are told. All are seconds of elapsed time."""
_COMPUTING = ("host_steal", "memory", "execution")


def lost_seconds(cell: StretchCell, base: StretchCell) -> LostSeconds | None:
    """Split the difference of the mean elapsed times; None where one of the two has no valid repetition.

    Args:
        cell: The machine.
        base: The native machine that did the same work.
    """
    if not cell.repetitions or not base.repetitions:
        return None
    own, theirs = _account(cell), _account(base)
    parts = {name: own.get(name, 0.0) - theirs.get(name, 0.0) for name in PARTS}
    # What the base computed, done by as many CPUs as the machine has.
    share = base.vcpus / cell.vcpus
    parts["fewer_cpus"] = sum(theirs[name] for name in _COMPUTING) * (share - 1.0)
    parts |= {name: own[name] - theirs[name] * share for name in _COMPUTING}
    elapsed_s, base_elapsed_s = fmean(cell.elapsed_s), fmean(base.elapsed_s)
    return LostSeconds(
        base=base.title,
        elapsed_s=elapsed_s,
        base_elapsed_s=base_elapsed_s,
        parts_s=parts,
        unexplained_s=elapsed_s - base_elapsed_s - sum(parts.values()),
        absent=_absent(cell),
    )


def waited_share(cell: StretchCell) -> float:
    """Give how much of a machine's elapsed time its CPUs were busy for others while it wanted them."""
    return _account(cell)["cpu_wait"] / fmean(cell.elapsed_s)


def _account(cell: StretchCell) -> dict[str, float]:
    """Give what the CPU seconds of a machine went into, divided by its CPUs: the mean of all repetitions."""
    each = [_of_repetition(one, cell) for one in cell.repetitions]
    return {name: fmean(one[name] for one in each) / cell.vcpus for name in each[0]}


def _of_repetition(one: Repetition, cell: StretchCell) -> dict[str, float]:
    """Give the CPU seconds of each part of one repetition."""
    cpus, traits = cell.vcpus, traits_of(cell.platform)
    waited = one.wait_s or 0.0
    if traits.is_native:
        # Tasks also wait for each other: others had no more than what is neither theirs nor idle.
        idle = one.idle_s
        others = max(0.0, cpus * one.elapsed_s - one.cpu_s - idle) if idle is not None else waited
        # A group that its quota holds back leaves its CPU idle.
        quota, waited, computing = one.throttled_s, min(max(0.0, waited - one.throttled_s), others), one.cpu_s
        idle_left = max(0.0, (idle or 0.0) - quota)
    else:
        quota = min(one.throttled_s, waited)
        counts_waits = traits.no_guest_steal is not None
        computing = max(0.0, one.cpu_s - waited) if counts_waits else one.cpu_s
        waited -= quota
        idle_left = one.idle_s or 0.0
    uneven = min(one.uneven_idle_s, idle_left)
    idle_left -= uneven
    blocked = one.lock_wait_s + one.io_s
    stolen = min(computing, _stolen_share(one, cell) * computing)
    filling = (computing - stolen) * (min(1.0, one.fill_cpu_s / one.cpu_s) if one.cpu_s else 0.0)
    return {
        "quota": quota,
        "cpu_wait": waited,
        "host_steal": stolen,
        "memory": filling,
        "execution": computing - stolen - filling,
        "lock_wait": idle_left * one.lock_wait_s / blocked if blocked else 0.0,
        "io": idle_left * one.io_s / blocked if blocked else 0.0,
        "uneven": uneven,
    }


def _stolen_share(one: Repetition, cell: StretchCell) -> float:
    """Give how much of the time on the host's CPUs was none: stolen from all alike that ran there."""
    return (one.host_steal_s or 0.0) / (cell.own_cpus * one.elapsed_s)


def _absent(cell: StretchCell) -> list[str]:
    absent = []
    if any(one.wait_s is None for one in cell.repetitions):
        absent.append("waiting for a CPU: the host's kernel does not tell the run delay")
    if any(one.idle_s is None for one in cell.repetitions):
        absent.append("idle time: the machine's kernel does not tell it")
    if any(one.host_steal_s is None for one in cell.repetitions):
        absent.append("the host's own host: the host's kernel does not tell steal time")
    return absent
