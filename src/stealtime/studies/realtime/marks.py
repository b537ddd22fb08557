"""What the run's time line shows of a trial: each job of each task, from its start to its finish."""

from collections.abc import Iterator

import numpy as np

from stealtime.report.marks import Mark, Slice, Track, TrialMarks
from stealtime.store.columns import read_columns
from stealtime.store.host_line import HostLine
from stealtime.store.run import Trial
from stealtime.studies.realtime.analysis.jobs import JOBS_SCHEMA
from stealtime.studies.realtime.results import JOBS, JobsOfTasks


def marks_of(trial: Trial, line: HostLine, root: Track) -> TrialMarks:
    """Draw a measured trial; see ``report.study.ReportedStudy.marks``.

    Raises:
        StealtimeError: Its table is damaged.
    """
    return TrialMarks(line, _marks(trial, line, root))


def _marks(trial: Trial, line: HostLine, root: Track) -> Iterator[Mark]:
    result = trial.result(JobsOfTasks)
    table = read_columns(trial.table(JOBS), JOBS_SCHEMA)
    for number, task in enumerate(result.tasks):
        track = Track(f"task {task.name}", root)
        own = np.flatnonzero(table["task"] == number)
        release, start, finish = (line.machine.moments(table[name][own]) for name in ("release", "start", "finish"))
        for released_ns, at_ns, end_ns in zip(release.tolist(), start.tolist(), finish.tolist(), strict=True):
            told = {
                "start latency in ns": at_ns - released_ns,
                "response in ns": end_ns - released_ns,
                "late": end_ns - released_ns > task.deadline_ns,
            }
            yield Slice(track, at_ns, max(0, end_ns - at_ns), task.name, "job", told)
