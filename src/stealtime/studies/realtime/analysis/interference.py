"""What a trial's trace saw take the jobs' CPUs, and no overhead is charged for: how much, and how often at most."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stealtime._core import EVENT_KINDS, TAKER_CLASSES
from stealtime.schedulability.overhead_seen import ArrivalCurve, Uncharged, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stealtime._core import EventsDict, OverheadsDict, StampedJobsDict

_NO_NAME = 2**32 - 1

MOST_HALVINGS = 10
"""Of the mean time between two takings, while a curve of that period is sought which says least."""
WINDOWS_NS = (1_000_000, 10_000_000, 100_000_000)
"""For which it is to say least, all alike: those of real-time tasks."""


def uncharged_of(
    found: "OverheadsDict", events: "EventsDict", jobs: "StampedJobsDict", ns_a_cycle: float
) -> tuple[Uncharged, ...]:
    """Add up what took the CPU between the first release and the last end of a job, by kind and name.

    Args:
        found: Of the trace.
        events: Of the trace.
        jobs: On the same counter.
        ns_a_cycle: Of that counter.
    """
    if not len(jobs["release"]):
        return ()
    begin, end = int(jobs["release"].min()), int(jobs["finish"].max())
    span_ns = max(1.0, (end - begin) * ns_a_cycle)
    taken = found["interference"]
    within = (taken["start"] >= begin) & (taken["end"] <= end)
    seen = []
    for cls, name in sorted(set(zip(taken["cls"][within].tolist(), taken["name"][within].tolist(), strict=True))):
        own = within & (taken["cls"] == cls) & (taken["name"] == name)
        what = TAKER_CLASSES[cls] if name == _NO_NAME else f"{TAKER_CLASSES[cls]} {events['names'][name]}"
        came = Came(taken["cpu"][own], (taken["start"][own] - begin) * ns_a_cycle, taken["net"][own] * ns_a_cycle)
        seen.append(_added(what, came, span_ns))
    cpus = np.unique(taken["cpu"])
    is_nmi = (events["kind"] == EVENT_KINDS.index("nmi")) & np.isin(events["cpu"], cpus)
    is_nmi &= (events["time"] >= begin) & (events["time"] <= end)
    if is_nmi.any():
        # The kernel tells how long it took, in ns.
        lengths_ns = events["value"][is_nmi].astype(np.float64)
        came = Came(events["cpu"][is_nmi], (events["time"][is_nmi] - begin) * ns_a_cycle, lengths_ns)
        seen.append(_added("non-maskable interrupt", came, span_ns))
    return tuple(seen)


@dataclass(frozen=True)
class Came:
    """Takings of one kind."""

    cpu: "NDArray[np.uint16]"
    start_ns: "NDArray[np.float64]"
    net_ns: "NDArray[np.float64]"
    """Without what came on top."""


def curves_of(came: Came, span_ns: float) -> tuple[ArrivalCurve, ...]:
    """Bound takings in any window of the time that was traced, by length and for each of the CPUs.

    Args:
        came: In any order.
        span_ns: How long each CPU was traced.
    """
    costs = np.maximum(1, np.ceil(came.net_ns)).astype(np.int64)
    # So that a rare long one does not make all of them long: each length is less than twice any other with it.
    sizes = np.frexp(costs.astype(np.float64))[1]
    found = []
    for cpu, size in sorted(set(zip(came.cpu.tolist(), sizes.tolist(), strict=True))):
        own = (came.cpu == cpu) & (sizes == size)
        starts = np.sort(came.start_ns[own])
        periods_ns = {max(1, int(span_ns / len(starts)) >> halvings) for halvings in range(MOST_HALVINGS + 1)}
        curves = [_curve(starts, period_ns, int(costs[own].max())) for period_ns in sorted(periods_ns, reverse=True)]
        # All of them hold; where many come close together, a shorter period with less jitter says less of them.
        found.append(min(curves, key=lambda curve: math.prod(curve.count_in(window) for window in WINDOWS_NS)))
    return joined(found)


def _curve(starts_ns: "NDArray[np.float64]", period_ns: int, cost_ns: int) -> ArrivalCurve:
    # How far any of them is ahead of a later one, on the grid of that period.
    ahead = np.arange(len(starts_ns)) * float(period_ns) - starts_ns
    jitter_ns = int(np.ceil((ahead - np.minimum.accumulate(ahead)).max()))
    return ArrivalCurve(cost_ns, period_ns, jitter_ns + 1 if jitter_ns else 0)


def _added(what: str, came: Came, span_ns: float) -> Uncharged:
    return Uncharged(
        what=what,
        longest_ns=int(np.ceil(came.net_ns.max())),
        count=len(came.net_ns),
        share_ppm=int(np.ceil(1e6 * came.net_ns.sum() / span_ns)),
        curves=curves_of(came, span_ns),
    )
