"""Periods that were found in the samples, matched with what the traces say about the samples in phase.

A period is known by its length, not by its phase. So the spikes of a trial are folded by it, the part of the cycle in
which most of them begin or, if those are more, end is taken as its phase, and the causes of those spikes are added up.
(A quota is used up sooner or later, and filled up again on time.)
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.model import Period
from stealtime.studies.latency.attribution.attribute import SplitTrial, split_trial
from stealtime.studies.latency.attribution.model import PeriodicCause

PIECES_CYCLES = 50
"""A period is known to a share of a cycle over the whole trial; over this many cycles its phase cannot drift away."""
WINDOW_SHARE = 0.05
"""Spikes within this share of a cycle around the densest place are in phase ..."""
WINDOW_SAMPLES = 2.0
"""... or within this many floors, where a sample is longer than that: a cause shows at the start of its sample."""
MOST_OF_IT = 0.5
"""A cause that took less than this share of the time in phase is not called the cause of the period."""
OTHERS = 3.0
"""Spikes that cost more than this many times the period's 90th percentile are of something else."""


def periodic_causes(periods: Sequence[Period], trial: Trial) -> list[PeriodicCause]:
    """Say what is behind each period.

    Args:
        periods: Found in the samples of ``trial`` or of another repetition of its cell.
        trial: With traces.

    Raises:
        NotAttributed: The trial's spikes cannot be split into causes.
        StealtimeError: A file of the trial is damaged.
    """
    if not periods:
        return []
    everything = split_trial(trial, min(min(period.level_ns, period.cost_p50_ns / 2) for period in periods))
    return [_match(period, everything) for period in periods]


def _match(period: Period, split: SplitTrial) -> PeriodicCause:
    every = f"every {_in_words(period.period_s)}"
    low_ns, high_ns = min(period.level_ns, period.cost_p50_ns / 2), OTHERS * period.cost_p90_ns
    chosen = split.judged & (split.excess_ns >= low_ns) & (split.excess_ns <= high_ns + split.usual_excess_ns)
    rows = np.flatnonzero(chosen)
    starts_s = split.start_s[rows]
    ends_s = starts_s + (split.excess_ns[rows] + split.floor_ns) / 1e9
    sides = [_in_phase(times_s, period.period_s, split.floor_ns / 1e9) for times_s in (starts_s, ends_s)]
    in_phase = rows[max(sides, key=len)]
    if len(in_phase) == 0:
        return PeriodicCause(period=period, cause=None, share=None, text=f"{every}: not judged, no spike in phase")
    lost_ns = np.zeros(len(split.causes))
    for row in in_phase:
        first, end = int(split.first[row]), int(split.first[row + 1])
        np.add.at(lost_ns, split.cause[first:end], split.part_ns[first:end])
    total_ns = float(lost_ns.sum())
    largest = int(np.argmax(lost_ns))
    share = float(lost_ns[largest] / total_ns) if total_ns > 0 else 0.0
    cause = split.causes[largest]
    if share < MOST_OF_IT or cause.kind == "unexplained":
        told = f"no single cause ({cause.label} has {share:.0%} of the time lost in phase)"
        return PeriodicCause(period=period, cause=None, share=share, text=f"{every}: {told}")
    return PeriodicCause(period=period, cause=cause, share=share, text=f"{every}: {cause.label}")


def _in_words(period_s: float) -> str:
    """Write a period as far as it is known: ``4 ms``, ``1.001 s``."""
    return f"{period_s:.4g} s" if period_s >= 1.0 else f"{period_s * 1e3:.4g} ms"


def _in_phase(times_s: NDArray[np.float64], period_s: float, floor_s: float) -> NDArray[np.intp]:
    """Find the spikes around the densest phase of each stretch of some cycles.

    Args:
        times_s: When each spike began, or ended, rising.
        period_s: The period.
        floor_s: How long an ordinary sample is.

    Returns:
        Places in ``times_s``.
    """
    if len(times_s) == 0:
        return np.empty(0, np.intp)
    width = min(0.5, max(WINDOW_SHARE, WINDOW_SAMPLES * floor_s / period_s))
    piece = (times_s / (PIECES_CYCLES * period_s)).astype(np.int64)
    bounds = np.flatnonzero(np.diff(piece, prepend=piece[0] - 1))
    found = [
        first + _densest(np.mod(times_s[first:end] / period_s, 1.0), width)
        for first, end in zip(bounds, [*bounds[1:], len(times_s)], strict=True)
    ]
    return np.concatenate(found)


def _densest(phase: NDArray[np.float64], width: float) -> NDArray[np.intp]:
    """Give the places of the phases that lie in the window with the most of them; phases are in 0 to 1, which meet."""
    order = np.argsort(phase)
    ordered = phase[order]
    twice = np.concatenate((ordered, ordered + 1.0))
    reach = np.searchsorted(twice, ordered + width, side="right") - np.arange(len(ordered))
    begin = int(np.argmax(reach))
    places: NDArray[np.intp] = order[(begin + np.arange(min(int(reach[begin]), len(order)))) % len(order)]
    return np.sort(places)
