"""The values of a cell whose tail is estimated: lateness of wake-ups, or what loops take longer than the floor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stealtime.report.tails.series import TailSeries
from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.series import read_durations

if TYPE_CHECKING:
    from stealtime.studies.latency.analysis.model import CellSummary


def tail_series(cell: "CellSummary", trials: Sequence[Trial]) -> TailSeries | None:
    """Give the values of all valid repetitions, one after the other; None for a probe that has no rate in an hour.

    Raises:
        StealtimeError: Samples cannot be read.
    """
    if cell.probe not in ("wakeup", "tick"):
        return None
    valid = {one.repetition for one in cell.trials if one.valid}
    found = [read_durations(trial) for trial in trials if trial.record.repetition in valid]
    if not found or cell.stats is None:
        return None
    values_ns = np.concatenate([units * (1e9 / rate) for units, rate in found])
    if cell.probe == "tick":
        values_ns -= cell.stats.floor_ns
    events_per_s = 1e9 / cell.period_ns(cell.stats)
    hindrance = None
    if cell.held_back is not None and cell.held_back.longest_ns is not None:
        hindrance = f"{cell.held_back.cause} stopped the probe: measure with --lift-rt-throttling"
    return TailSeries(values_ns, events_per_s, max(1e9 / rate for _, rate in found), hindrance=hindrance)
