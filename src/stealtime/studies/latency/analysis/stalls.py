"""What a trial lost, and its longest stalls: what two runs are compared by where percentiles show nothing.

A stall of 5 ms once in 10 s is one sample of 150,000. Two runs that are compared by it need a threshold that is the
same for both, which only their longest samples together can give; so each trial keeps its own.

Samples that may be a pause of the kernel's limit on real-time threads (``held_back``) are left out of both, whether
or not they were one: a run that counts such a pause as its own and another that does not would differ by the limit.
"""

import numpy as np

from stealtime._core import Series
from stealtime.studies.latency.analysis.model import PAUSE_SHARE, HeldBack, Stalls, Stats

KEPT = 64
"""The longest of each trial: enough for the thresholds of two runs of four repetitions each."""
_PAUSES_MOST = 1 << 20


def find_stalls(series: Series, stats: Stats, units_per_s: float, held_back: HeldBack | None) -> Stalls:
    """Find what the samples of a trial lost over its floor, and the longest of them.

    Args:
        series: All samples of the trial.
        stats: Of the same samples.
        units_per_s: Of the clock that they are counted by.
        held_back: Of the same samples; None where no limit held the probe back.
    """
    lost_ns = max(0.0, stats.count * (stats.mean_ns - stats.floor_ns))
    if held_back is None:
        longest_ns = [one["duration_ns"] - stats.floor_ns for one in series.worst(KEPT)]
        return Stalls(lost_s=lost_ns / 1e9, longest_ns=longest_ns, left_out=0)
    limit_ns = PAUSE_SHARE * held_back.pause_ns
    pauses = series.spikes(int((stats.floor_ns + limit_ns) * units_per_s / 1e9), _PAUSES_MOST)
    paused_ns = np.asarray(pauses["duration"], dtype=np.float64) * 1e9 / units_per_s - stats.floor_ns
    worst = series.worst(KEPT + len(paused_ns))
    return Stalls(
        lost_s=max(0.0, lost_ns - float(paused_ns.sum())) / 1e9,
        longest_ns=[one["duration_ns"] - stats.floor_ns for one in worst][len(paused_ns) :],
        left_out=len(paused_ns),
    )
