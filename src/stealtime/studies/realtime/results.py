"""What is stored of a trial: the tasks with what became of them, a row for each job, and the injected thefts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result, read_as
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Model
from stealtime.wire.message import WholeOutcome
from stealtime.wire.rtload import ClockConversion, DrawnTaskSet, RealTimePolicy, RtloadProbe

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord

JOBS, EVENTS = "jobs", "events"


class TaskRecord(Model):
    """A task, as it was asked for, and what became of its jobs."""

    task: int
    """Its number in the table, from 0; the most urgent first."""
    name: str
    """As its task set calls it."""
    thread_id: int
    """As the machine's own trace counts threads."""
    priority: int
    """Of ``SCHED_FIFO``; 0 under ``SCHED_DEADLINE``."""
    period_ns: int
    deadline_ns: int
    """Relative to a release."""
    cost_ns: int
    """What a job was meant to take natively."""
    budget_ns: int | None
    """Of ``deadline``: how long a job may run before it is put off to the next period."""
    iterations: int
    """Of the busy loop: the work of a job."""
    released: int
    """Jobs whose deadline lay within the duration."""
    finished: int
    """Of these, the rows of the table."""
    late: int
    """Of ``finished``, those done after their deadline."""
    unstarted: int
    """Of ``released``, those that had not begun when the duration was over."""
    overruns: int
    """Jobs whose release had passed when the one before was done."""
    median_response_ns: float | None
    """From release to finish, of ``finished``; None where that is 0."""
    worst_response_ns: float | None

    @property
    def missed(self) -> int:
        """Jobs that were not done by their deadline."""
        return self.late + self.unstarted


class JobsOfTasks(Result):
    """What became of a task set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["jobs"] = "jobs"
    tables: tuple[str, ...] = (JOBS, EVENTS)
    policy: RealTimePolicy
    tasks: list[TaskRecord]
    drawn: DrawnTaskSet | None
    """How the set was drawn; None where it was given."""
    polluters: int
    polluter_bytes: int
    polluted_pages: int
    """That all of them went through."""
    start_monotonic_ns: int
    """The first release of every task, by ``CLOCK_MONOTONIC``."""
    conversion: ClockConversion
    """From that clock to the counter of the table."""
    units_per_s: float
    """Of the table's counter, by the rate that the trial was measured with."""

    @property
    def released(self) -> int:
        return sum(task.released for task in self.tasks)

    @property
    def missed(self) -> int:
        return sum(task.missed for task in self.tasks)

    @property
    def utilization(self) -> float:
        """Of the costs asked for."""
        return sum(task.cost_ns / task.period_ns for task in self.tasks)


def _make(done: WholeOutcome) -> JobsOfTasks:
    asked, told = done.request.probe, done.rtload
    if told is None or not isinstance(asked, RtloadProbe) or len(told.tasks) != len(asked.tasks):
        raise StealtimeError("the agent's result lacks what became of the tasks of rtload")
    ns_a_unit = 1 / told.conversion.tsc_per_ns
    tasks = [
        TaskRecord(
            task=number,
            **asked_task.model_dump(),
            **one.model_dump(exclude={"median_response_units", "worst_response_units"}),
            median_response_ns=None if one.median_response_units is None else one.median_response_units * ns_a_unit,
            worst_response_ns=None if one.worst_response_units is None else one.worst_response_units * ns_a_unit,
        )
        for number, (asked_task, one) in enumerate(zip(asked.tasks, told.tasks, strict=True))
    ]
    return JobsOfTasks(
        policy=asked.policy,
        tasks=tasks,
        drawn=asked.drawn,
        polluters=asked.polluters,
        polluter_bytes=asked.polluter_bytes,
        polluted_pages=done.counters.get("polluted_pages", 0),
        start_monotonic_ns=told.start_monotonic_ns,
        conversion=told.conversion,
        units_per_s=done.clock.units_per_s,
    )


def _describe(record: "TrialRecord") -> dict[str, Any]:
    """Give what makes a table readable alone."""
    if record.outcome is None or record.result is None:
        raise ValueError(f"{record.trial_id} has no outcome")
    clock = record.outcome.clock
    return {
        "schema_version": 1,
        "units_per_s": clock.units_per_s,
        "clock": clock.model_dump(mode="json"),
        "conversion": read_as(record.result, JobsOfTasks).conversion.model_dump(mode="json"),
    }


def _write_jobs(streams: Streams, target: Path, record: "TrialRecord") -> None:
    # pyarrow takes 0.3 s to load.
    from stealtime.store.tables import write_parquet

    write_parquet(streams["jobs"], target, _describe(record))


def _write_events(streams: Streams, target: Path, record: "TrialRecord") -> None:
    from stealtime.store.tables import EVENTS_SCHEMA, write_empty, write_parquet

    if "events" in streams:
        write_parquet(streams["events"], target, _describe(record))
    else:
        write_empty(EVENTS_SCHEMA, target, _describe(record))


JOBS_OF_TASKS = ResultKind(name="jobs", make=_make, tables={JOBS: _write_jobs, EVENTS: _write_events}, needs=("jobs",))
