"""Where the seconds went that the work took longer than in its base.

A machine's elapsed time T on v CPUs is (B + E) / v: B is what its tasks counted as CPU time, E the rest of its CPUs'
time. Both are split by what was measured, for the machine and for its base alike, so that the differences of the parts
add up to the difference of the elapsed times. What no measurement accounts for is the rest, and is told.

A part that was not measured, of the machine or of its base, is absent with its reason and not nought. What it would be
is then in the part that it would have been taken from: page faults in filling memory, exits and cycles per instruction
in executing more slowly, everything else in the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from stealtime.lab.platforms.traits import traits_of
from stealtime.studies.stretch.analysis.model import LostSeconds, Repetition, StretchCell

PARTS: Mapping[str, str] = {
    "fewer_cpus": "fewer CPUs than natively",
    "quota": "its own quota",
    "cpu_wait": "waiting for a CPU of the host",
    "host_steal": "the host's own host",
    "page_faults": "page faults",
    "memory": "filling memory",
    "exits": "leaving the guest (VM exits)",
    "cycles": "more cycles per instruction",
    "execution": "executing more slowly otherwise",
    "lock_wait": "idle, waiting for the lock",
    "io": "idle in simulated I/O",
    "uneven": "idle at the end, fewer tasks than CPUs",
}
"""In the order in which they are told. All are seconds of elapsed time."""
_SHOWN_S = 0.0005
_COMPUTING = ("host_steal", "page_faults", "memory", "exits", "execution")


def lost_seconds(cell: StretchCell, base: StretchCell) -> LostSeconds | None:
    """Split the difference of the mean elapsed times; None where one of the two has no valid repetition.

    Args:
        cell: The machine.
        base: The native machine that did the same work.
    """
    if not cell.repetitions or not base.repetitions:
        return None
    absent = _absent(cell, base)
    own, theirs = (_account(one, absent.keys()) for one in (cell, base))
    parts = {name: own.get(name, 0.0) - theirs.get(name, 0.0) for name in PARTS}
    # What the base computed, done by as many CPUs as the machine has.
    share = base.vcpus / cell.vcpus
    parts["fewer_cpus"] = sum(theirs[name] for name in _COMPUTING) * (share - 1.0)
    parts |= {name: own[name] - theirs[name] * share for name in _COMPUTING}
    if "cycles" not in absent:
        parts["cycles"] = _slower_cycles_s(cell, base)
        parts["execution"] -= parts["cycles"]
    parts = {name: value for name, value in parts.items() if name not in absent}
    elapsed_s, base_elapsed_s = fmean(cell.elapsed_s), fmean(base.elapsed_s)
    return LostSeconds(
        base=base.title,
        elapsed_s=elapsed_s,
        base_elapsed_s=base_elapsed_s,
        parts_s=parts,
        unexplained_s=elapsed_s - base_elapsed_s - sum(parts.values()),
        absent=[f"{PARTS[name]}: {why}" for name, why in absent.items()],
    )


def shown_parts(cells: Sequence[StretchCell]) -> list[str]:
    """Give the parts that are told of some cell and do not round to nothing everywhere."""
    lost = [cell.lost for cell in cells if cell.lost is not None]
    return [name for name in PARTS if any(abs(one.parts_s.get(name, 0.0)) >= _SHOWN_S for one in lost)]


def waited_share(cell: StretchCell) -> float:
    """Give how much of a machine's elapsed time its CPUs were busy for others while it wanted them."""
    return _account(cell, ())["cpu_wait"] / fmean(cell.elapsed_s)


def _account(cell: StretchCell, absent: Collection[str]) -> dict[str, float]:
    """Give what the CPU seconds of a machine went into, divided by its CPUs: the mean of all repetitions."""
    each = [_of_repetition(one, cell, absent) for one in cell.repetitions]
    return {name: fmean(one[name] for one in each) / cell.vcpus for name in each[0]}


def _of_repetition(one: Repetition, cell: StretchCell, absent: Collection[str]) -> dict[str, float]:
    """Give the CPU seconds of each part of one repetition; what an absent part would be stays where it is."""
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
    left = computing - stolen
    filling = left * (min(1.0, one.fill_cpu_s / one.cpu_s) if one.cpu_s else 0.0)
    left -= filling
    faults = 0.0 if "page_faults" in absent or not one.fill_cpu_s else (one.fault_cpu_s or 0.0) / one.fill_cpu_s
    faults = filling * min(1.0, faults)
    exits = 0.0 if "exits" in absent else min(left, one.outside_guest_s or 0.0)
    return {
        "quota": quota,
        "cpu_wait": waited,
        "host_steal": stolen,
        "page_faults": faults,
        "memory": filling - faults,
        "exits": exits,
        "execution": left - exits,
        "lock_wait": idle_left * one.lock_wait_s / blocked if blocked else 0.0,
        "io": idle_left * one.io_s / blocked if blocked else 0.0,
        "uneven": uneven,
    }


def _stolen_share(one: Repetition, cell: StretchCell) -> float:
    """Give how much of the time on the host's CPUs was none: stolen from all alike that ran there."""
    return (one.host_steal_s or 0.0) / (cell.own_cpus * one.elapsed_s)


def _slower_cycles_s(cell: StretchCell, base: StretchCell) -> float:
    """Give what the machine's own instructions took longer because each took more cycles than natively.

    They are counted outside of allocating and filling, and not while the hypervisor runs. A second has as many cycles
    as in the base: that a clock runs slower is no part of this.
    """
    own, theirs = _cycles_per_instruction(cell), _cycles_per_instruction(base)
    cycles_per_s = sum(one.cycles or 0 for one in base.repetitions) / _searching_s(base)
    instructions = fmean(one.instructions or 0 for one in cell.repetitions)
    return instructions * (own - theirs) / cycles_per_s / cell.vcpus


def _searching_s(cell: StretchCell) -> float:
    """Give the CPU time of all repetitions outside of allocating and filling."""
    return sum(one.cpu_s - one.fill_cpu_s for one in cell.repetitions)


def _cycles_per_instruction(cell: StretchCell) -> float:
    return sum(one.cycles or 0 for one in cell.repetitions) / sum(one.instructions or 0 for one in cell.repetitions)


def _absent(cell: StretchCell, base: StretchCell) -> dict[str, str]:
    """Say why parts cannot be told, by their names."""
    absent = {}
    if _lacks(cell, "wait_s"):
        absent["cpu_wait"] = "the host's kernel does not tell the run delay"
    if _lacks(cell, "idle_s"):
        why = "the machine's kernel does not tell its idle time"
        absent |= dict.fromkeys(("lock_wait", "io", "uneven"), why)
    if _lacks(cell, "host_steal_s"):
        absent["host_steal"] = "the host's kernel does not tell steal time"
    for one in (cell, base):
        if _lacks(one, "fault_cpu_s"):
            absent["page_faults"] = _why(one, "fault_cpu_s")
        if any(not each.cycles or not each.instructions for each in one.repetitions):
            absent["cycles"] = _why(one, "instructions")
    if "cycles" not in absent and _searching_s(base) <= 0.0:
        absent["cycles"] = f"{base.title} did nothing but fill memory"
    if not cell.is_native and _lacks(cell, "outside_guest_s"):
        absent["exits"] = _why(cell, "outside_guest_s")
    return absent


def _lacks(cell: StretchCell, figure: str) -> bool:
    return any(getattr(one, figure) is None for one in cell.repetitions)


def _why(cell: StretchCell, figure: str) -> str:
    return cell.not_counted.get(figure, f"{cell.title} was not asked")
