"""The figures of one cell from its trials."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime.report.cells.records import cell_figures
from stealtime.studies.realtime.analysis.jobs import Jobs, read_jobs
from stealtime.studies.realtime.analysis.model import RealTimeCell, Repetition, Tail, TaskFigures
from stealtime.studies.realtime.analysis.shares import clustered_share, wilson_share
from stealtime.studies.realtime.results import JobsOfTasks

if TYPE_CHECKING:
    from stealtime.store.run import Trial


def summarize_cell(trials: Sequence["Trial"]) -> RealTimeCell:
    """Compute what became of the jobs of a cell.

    Args:
        trials: Of one cell, at least one.
    """
    figures = cell_figures([trial.record for trial in trials])
    valid = [trial for trial, told in zip(trials, figures["trials"], strict=True) if told.valid]
    results = [trial.result(JobsOfTasks) for trial in valid]
    jobs = [read_jobs(trial) for trial in valid]
    repetitions = [_repetition(*one) for one in zip(valid, results, jobs, strict=True)]
    released, missed = [one.released for one in repetitions], [one.missed for one in repetitions]
    return RealTimeCell(
        **figures,
        policy=results[0].policy if results else None,
        polluters=results[0].polluters if results else 0,
        repetitions=repetitions,
        released=sum(released),
        missed=sum(missed),
        missed_share=clustered_share(missed, released),
        sets_missed=sum(count > 0 for count in missed),
        sets_missed_share=wilson_share(sum(count > 0 for count in missed), len(missed)),
        urgent_latency_ns=tail_of([one.urgent_latency_ns for one in jobs]),
        start_latency_ns=tail_of([one.start_latency_ns for one in jobs]),
        response_share=tail_of([one.response_share for one in jobs]),
    )


def tail_of(series: Sequence[NDArray[np.float64]]) -> Tail | None:
    """Give the percentiles of some series together; None where they hold nothing."""
    if not sum(map(len, series)):
        return None
    values = np.concatenate(series)
    p50, p99, p999 = np.percentile(values, [50, 99, 99.9], method="higher")
    return Tail(count=len(values), p50=float(p50), p99=float(p99), p999=float(p999), max=float(values.max()))


def _repetition(trial: "Trial", result: JobsOfTasks, jobs: Jobs) -> Repetition:
    shown = TaskFigures.model_fields.keys()
    return Repetition(
        repetition=trial.record.repetition,
        seed=None if result.drawn is None else result.drawn.seed,
        utilization=result.utilization,
        released=result.released,
        finished=sum(task.finished for task in result.tasks),
        missed=result.missed,
        unstarted=sum(task.unstarted for task in result.tasks),
        overruns=sum(task.overruns for task in result.tasks),
        urgent_latency_ns=tail_of([jobs.urgent_latency_ns]),
        start_latency_ns=tail_of([jobs.start_latency_ns]),
        response_share=tail_of([jobs.response_share]),
        conversion_error_ns=result.conversion.error_ns,
        tasks=[TaskFigures(**{name: getattr(task, name) for name in shown}) for task in result.tasks],
    )
