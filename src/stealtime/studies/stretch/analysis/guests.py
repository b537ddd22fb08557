"""The stretch of each of several guests that do the same work, and what a priority is worth to the favoured ones. Pure.

All are started together. Who ends first leaves CPUs to the others: the times of the slower guests are shorter than they
would be beside guests that went on, as in M. Friedman's measurements.
"""

from collections.abc import Sequence
from statistics import fmean

from stealtime.report.interval import REPETITIONS_MIN, ratio_of_repetitions
from stealtime.studies.stretch.analysis.lost import lost_seconds
from stealtime.studies.stretch.analysis.model import AlikeGuest, Guest, Priority, Stretch, StretchCell


def same_work(one: StretchCell, other: StretchCell) -> bool:
    return (one.parameters, one.traced) == (other.parameters, other.traced)


def same_place(one: StretchCell, other: StretchCell) -> bool:
    """Tell whether two machines have as many virtual CPUs on as many CPUs of the host, shared as widely."""
    return (one.vcpus, one.own_cpus, one.host_cpus) == (other.vcpus, other.own_cpus, other.host_cpus)


def each_guest(cell: StretchCell, native: StretchCell | None, alone: StretchCell | None) -> list[AlikeGuest]:
    """Complete the neighbours that did the same as the machine.

    Args:
        cell: The machine.
        native: The base natively; None where it was not measured.
        alone: The machine alone, which all of them are like; None where it was not measured.
    """
    found = []
    for guest in cell.alike:
        own = cell.model_copy(update={"repetitions": guest.repetitions, "itself": guest.guest})
        changes = {
            "against_native": None if native is None else stretch(own, native),
            "against_alone": None if alone is None else stretch(own, alone),
            "lost": None if native is None else lost_seconds(own, native),
        }
        found.append(guest.model_copy(update=changes))
    return found


def stretch(cell: StretchCell, base: StretchCell) -> Stretch | None:
    """Give the ratio of elapsed times with its interval; None where the cell has no valid repetition.

    Repetitions of both took turns in one run, so what changes slowly on the host meets both.
    """
    checksums = {one.checksum for one in (*cell.repetitions, *base.repetitions)}
    return _ratio(cell.elapsed_s, base.elapsed_s, base.title, checksums) if cell.repetitions else None


def is_favoured(one: Guest, among: Sequence[Guest]) -> bool:
    """Tell whether a guest has a better right to the CPUs than another, and none has a better one than it."""
    return _right(one) == max(map(_right, among)) > min(map(_right, among))


def priority(cell: StretchCell, cells: Sequence[StretchCell]) -> Priority | None:
    """Compare guests of unequal right with the same guests without their shares.

    Args:
        cell: With neighbours that do the same work.
        cells: All of the run.
    """
    base = next((one for one in cells if _is_same_without_shares(one, cell)), None)
    everybody = [cell.itself, *cell.beside]
    favoured = [is_favoured(one, everybody) for one in everybody]
    if base is None or not any(favoured) or not cell.repetitions:
        return None
    checksums = _checksums(cell) | _checksums(base)
    everyone = _means_s(base, [True] * len(everybody))
    sides = [
        _ratio(_means_s(cell, [is_one == side for is_one in favoured]), everyone, base.title, checksums)
        for side in (True, False)
    ]
    count = sum(favoured)
    return Priority(favoured=sides[0], favoured_guests=count, others=sides[1], other_guests=len(everybody) - count)


def _right(one: Guest) -> tuple[float, float]:
    """Order guests by what they may have: a quota bounds whatever the weight is."""
    quota = float("inf") if one.quota_percent is None else one.quota_percent / one.vcpus
    return quota, (100 * one.vcpus if one.weight is None else one.weight) / one.vcpus


def _is_same_without_shares(one: StretchCell, other: StretchCell) -> bool:
    """Tell whether a cell has the same guests as another, all with the same right."""
    everybody, theirs = [one.itself, *one.beside], [other.itself, *other.beside]
    same_guests = [guest.vcpus for guest in everybody] == [guest.vcpus for guest in theirs]
    are_free = all(guest.weight is None and guest.quota_percent is None for guest in everybody)
    all_alike = all(len(cell.alike) == len(cell.beside) for cell in (one, other))
    there = one.platform == other.platform and same_place(one, other)
    measured = bool(one.beside) and bool(one.repetitions)
    return same_guests and are_free and all_alike and there and measured and same_work(one, other)


def _means_s(cell: StretchCell, wanted: Sequence[bool]) -> list[float]:
    """Give the mean elapsed time of the wanted guests in each repetition: the machine, then its neighbours."""
    guests = [cell.elapsed_s, *(one.elapsed_s for one in cell.alike)]
    chosen = [times for times, is_wanted in zip(guests, wanted, strict=True) if is_wanted]
    return [fmean(times) for times in zip(*chosen, strict=True)]


def _checksums(cell: StretchCell) -> set[int]:
    neighbours = [one for guest in cell.alike for one in guest.repetitions]
    return {one.checksum for one in (*cell.repetitions, *neighbours)}


def _ratio(elapsed_s: Sequence[float], base_s: Sequence[float], base: str, checksums: set[int]) -> Stretch:
    """Give the ratio of elapsed times.

    Args:
        elapsed_s: Of each repetition, at least one.
        base_s: The same of the base.
        base: Its title.
        checksums: All that were found on both sides.
    """
    if len(checksums) > 1:
        because = "the checksums differ: it was not the same work"
        return Stretch(base=base, ratio=None, low=None, high=None, because=because)
    count = min(len(elapsed_s), len(base_s))
    if count < REPETITIONS_MIN:
        because = f"one side has {count} valid repetition{'' if count == 1 else 's'}, {REPETITIONS_MIN} are needed"
        return Stretch(base=base, ratio=fmean(elapsed_s) / fmean(base_s), low=None, high=None, because=because)
    found = ratio_of_repetitions(base_s, elapsed_s, same_session=True)
    return Stretch(base=base, ratio=found.value, low=found.low, high=found.high)
