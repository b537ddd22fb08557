"""The jobs of one trial, as they are stored."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stealtime.store.columns import read_columns
from stealtime.studies.realtime.results import JOBS, JobsOfTasks

if TYPE_CHECKING:
    from stealtime.store.run import Trial

JOBS_SCHEMA = pa.schema(
    [("task", pa.uint16()), ("release", pa.uint64()), ("start", pa.uint64()), ("finish", pa.uint64())]
)
"""The columns of the table that are read; also there is the number of the job."""


@dataclass(frozen=True)
class Jobs:
    """The rows of one trial, in the order of task and job."""

    task: NDArray[np.uint16]
    start_latency_ns: NDArray[np.float64]
    """From release to start."""
    response_ns: NDArray[np.float64]
    """From release to finish."""
    deadline_ns: NDArray[np.float64]
    """Relative to the release."""

    @property
    def response_share(self) -> NDArray[np.float64]:
        """Of the relative deadline."""
        return self.response_ns / self.deadline_ns

    @property
    def urgent_latency_ns(self) -> NDArray[np.float64]:
        """From release to start, of the most urgent task alone."""
        of_urgent: NDArray[np.float64] = self.start_latency_ns[self.task == 0]
        return of_urgent


def read_jobs(trial: "Trial") -> Jobs:
    """Read the table of a measured trial.

    Raises:
        StealtimeError: The file is missing or damaged.
    """
    result = trial.result(JobsOfTasks)
    table = read_columns(trial.table(JOBS), JOBS_SCHEMA)
    task, release, start, finish = (table[name] for name in JOBS_SCHEMA.names)
    # Differences first: as a float the counter itself would be rounded after some weeks.
    units_a_ns = result.conversion.tsc_per_ns
    deadlines_ns = np.array([one.deadline_ns for one in result.tasks], np.float64)
    return Jobs(
        task=task,
        start_latency_ns=(start.astype(np.int64) - release.astype(np.int64)) / units_a_ns,
        response_ns=(finish.astype(np.int64) - release.astype(np.int64)) / units_a_ns,
        deadline_ns=deadlines_ns[task],
    )
