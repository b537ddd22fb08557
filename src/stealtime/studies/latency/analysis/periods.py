"""What repeats in a cell: the periods found in each of its repetitions, put together.

A period that is real is found again; how many repetitions agree is told beside each. Two causes that meet now and then
make a third period out of chance: every 20 ms, where one comes every 4 ms and another every 10 ms. It is left out,
whatever repetition it was found in, unless it costs more than both together.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from stealtime.studies.latency.analysis.model import Period

if TYPE_CHECKING:
    from stealtime._core import PeriodDict

SAME_RATE = 2e-3
"""Two rates closer than this share are one period; the clocks of repetitions drift by some ppm."""
_WHOLE_CYCLES = 0.02
"""So near to a whole number of the faster one's cycles is a multiple, beside the share by which rates are uncertain."""
_RATE_SHARE = 5e-4
"""That share; a slow period has few occurrences to tell its rate by."""
_TELLING = 0.2
"""Where a multiple may be off by more cycles, nearly every period would be one."""
_DEARER = 1.05
"""A multiple that costs so many times both of the others, each at its 90th percentile, is a cause of its own."""


def join_periods(found: "Sequence[tuple[int, Sequence[PeriodDict]]]") -> list[Period]:
    """Join the periods of repetitions to those of a cell, what takes most time first.

    What fewer than half of the repetitions show comes after all others: it may be chance.

    Args:
        found: The number of each repetition, and its periods.

    Returns:
        Each with the figures of the first repetition that it was found in.
    """
    groups: list[list[Period]] = []
    for repetition, periods in found:
        for period in periods:
            one = Period(**period, repetition=repetition, found_in_repetitions=1, searched_repetitions=len(found))
            group = next((each for each in groups if _is_same(each[0], one)), None)
            if group is None:
                groups.append([one])
            elif group[-1].repetition != repetition:
                group.append(one)
    lost = [sum(period.lost_share for period in group) for group in groups]
    joined = [group[0].model_copy(update={"found_in_repetitions": len(group)}) for group in groups]
    own = [(period, share) for period, share in zip(joined, lost, strict=True) if not _is_coincidence(period, joined)]
    own.sort(key=lambda one: (2 * one[0].found_in_repetitions < one[0].searched_repetitions, -one[1]))
    return [period for period, _ in own]


def _is_same(one: Period, other: Period) -> bool:
    return abs(one.rate_hz / other.rate_hz - 1.0) <= SAME_RATE


def _is_coincidence(period: Period, periods: Sequence[Period]) -> bool:
    faster = [one for one in periods if _is_multiple(period, one)]
    return any(
        not _is_multiple(one, other)
        and not _is_multiple(other, one)
        and period.cost_p50_ns <= _DEARER * (one.cost_p90_ns + other.cost_p90_ns)
        for one, other in combinations(faster, 2)
    )


def _is_multiple(slow: Period, fast: Period) -> bool:
    cycles = fast.rate_hz / slow.rate_hz
    tolerance = _WHOLE_CYCLES + _RATE_SHARE * cycles
    return cycles > 1.5 and tolerance <= _TELLING and abs(cycles - round(cycles)) <= tolerance
