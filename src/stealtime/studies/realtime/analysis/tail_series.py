"""The values of a cell whose tail is estimated: how late its most urgent task began."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime.report.tails.series import TailSeries
from stealtime.studies.realtime.analysis.jobs import read_jobs
from stealtime.studies.realtime.analysis.overheads import measure
from stealtime.studies.realtime.results import JobsOfTasks
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Trial
    from stealtime.studies.realtime.analysis.model import RealTimeCell


def tail_series(cell: "RealTimeCell", trials: "Sequence[Trial]") -> TailSeries | None:
    """Give the start latencies of the most urgent task in all valid repetitions, one after the other.

    Of traced trials it is told which the host interfered with; None where nothing valid was measured.

    Raises:
        StealtimeError: A table cannot be read.
    """
    valid = {one.repetition: one for one in cell.repetitions}
    used = [trial for trial in trials if trial.record.repetition in valid]
    if not used:
        return None
    values = [read_jobs(trial).urgent_latency_ns for trial in used]
    periods_ns = [valid[trial.record.repetition].tasks[0].period_ns for trial in used]
    watched_s = sum(period * len(own) for period, own in zip(periods_ns, values, strict=True)) / 1e9
    hits = [_taken(trial) for trial in used]
    known = [one for one in hits if one is not None]
    return TailSeries(
        values_ns=np.concatenate(values),
        events_per_s=sum(map(len, values)) / watched_s,
        resolution_ns=max(1 / trial.result(JobsOfTasks).conversion.tsc_per_ns for trial in used),
        host_hit=np.concatenate(known) if len(known) == len(hits) else None,
        # What wakes from a longer sleep wakes from a deeper one.
        hindrance="the repetitions are of tasks of different periods" if len(set(periods_ns)) > 1 else None,
    )


def _taken(trial: "Trial") -> NDArray[np.bool_] | None:
    """Tell for each job of the most urgent task whether the host took its CPU; None where that was not traced."""
    if not trial.record.cell.traced:
        return None
    try:
        found = measure(trial)
    except StealtimeError:
        return None
    taken: NDArray[np.bool_] = np.not_equal(found.found["chains"]["taken"], 0)
    urgent: NDArray[np.bool_] = taken[read_jobs(trial).task == 0]
    return urgent
