"""What threads used between two readings of their counters."""

from typing import NamedTuple

from stealtime.vocabulary.readings import Absent


class ThreadsUse(NamedTuple):
    """Some of a guest's threads together, in percent of one CPU."""

    run_percent: float
    wait_percent: float
    dispatches_per_s: float
    wait_per_dispatch_ns: float | Absent
