"""What a trial's trace saw take the jobs' CPUs, and no overhead is charged for."""

from typing import TYPE_CHECKING

import numpy as np

from stealtime._core import EVENT_KINDS, TAKER_CLASSES
from stealtime.schedulability.overhead_seen import Uncharged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stealtime._core import EventsDict, OverheadsDict, StampedJobsDict

_NO_NAME = 2**32 - 1


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
        seen.append(_added(what, taken["net"][own] * ns_a_cycle, span_ns))
    cpus = np.unique(taken["cpu"])
    is_nmi = (events["kind"] == EVENT_KINDS.index("nmi")) & np.isin(events["cpu"], cpus)
    is_nmi &= (events["time"] >= begin) & (events["time"] <= end)
    if is_nmi.any():
        # The kernel tells how long it took, in ns.
        seen.append(_added("non-maskable interrupt", events["value"][is_nmi].astype(np.float64), span_ns))
    return tuple(seen)


def _added(what: str, lengths_ns: "NDArray[np.float64]", span_ns: float) -> Uncharged:
    return Uncharged(
        what=what,
        longest_ns=int(np.ceil(lengths_ns.max())),
        count=len(lengths_ns),
        share_ppm=int(np.ceil(1e6 * lengths_ns.sum() / span_ns)),
    )
