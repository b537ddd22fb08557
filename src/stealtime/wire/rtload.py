"""``rtload``: the task set that it runs, and what it tells of each task besides the rows of its table.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Literal

from pydantic import Field

from stealtime.vocabulary.readings import Model, Unsigned

RealTimePolicy = Literal["fifo", "deadline"]
"""How the tasks are scheduled.

- ``fifo``: Fixed priorities on one CPU (``SCHED_FIFO``).
- ``deadline``: Earliest deadline first with a budget for each job (``SCHED_DEADLINE``).
"""


class RealTimeTask(Model):
    """A periodic task."""

    name: str
    """As its task set calls it."""
    period_ns: int = Field(ge=1)
    """From one release to the next."""
    deadline_ns: int = Field(ge=1)
    """From a release to when the job must have finished."""
    cost_ns: int = Field(ge=1)
    """What one job was meant to take."""
    budget_ns: int | None = Field(default=None, ge=1)
    """How long a job may run before it is put off to the next period; for the policy ``deadline``, and only there."""
    iterations: int = Field(ge=1)
    """Of the busy loop: the work of one job."""


class DrawnTaskSet(Model):
    """All that it takes to draw a task set again."""

    version: str
    """Of stealtime."""
    law: str
    """Of utilizations."""
    total: float | None = None
    """The utilization asked for, where the law is of a fixed total."""
    periods: str
    """The law of periods."""
    deadlines: str
    """The law of deadlines."""
    seed: Unsigned
    tasks_asked: Unsigned
    """Before the rule for over-utilized sets."""
    over_utilized: str
    """That rule: ``keep``, ``redraw``, ``scale`` or ``shed``."""
    cap: float
    """What the rule keeps the utilization to."""
    attempts: Unsigned
    """Sets drawn."""
    drawn_utilization: float
    """Of the last one."""
    utilization: float
    """Of the set as it is."""


class RtloadProbe(Model):
    """Periodic tasks, each job a fixed amount of work, released at absolute times from one start."""

    name: Literal["rtload"] = "rtload"
    policy: RealTimePolicy
    tasks: list[RealTimeTask] = Field(min_length=1)
    """The most urgent first: under ``fifo`` it has the priority of the request, and each next one a priority less."""
    polluters: Unsigned
    """Threads under ordinary scheduling that thrash the caches on the CPUs of the tasks meanwhile."""
    polluter_bytes: int = Field(ge=4096)
    """The memory that each of them walks at random."""
    released_elsewhere: bool = False
    """A thread on another CPU releases the tasks, by waking them: each then takes an inter-processor interrupt. Else
    each sleeps until its own releases."""
    drawn: DrawnTaskSet | None = None
    """How the set was drawn; none where it was given. It changes nothing, and comes back with the outcome."""


class ClockConversion(Model):
    """A straight line from ``CLOCK_MONOTONIC`` to the time-stamp counter."""

    tsc: Unsigned
    """A point of the line."""
    monotonic_ns: Unsigned
    tsc_per_ns: float
    """Its slope."""
    error_ns: float
    """The most that a reading of both clocks lies off the line, with the half of its bracket."""
    readings: Unsigned
    """How many readings, over the whole trial, that is known from."""


class RealTimeTaskOutcome(Model):
    """What one task did."""

    thread_id: Unsigned
    """As the machine's own trace counts threads."""
    priority: Unsigned
    """Of ``SCHED_FIFO``; 0 under ``SCHED_DEADLINE``."""
    released: Unsigned
    """Jobs whose deadline lay within the duration; all of them are released."""
    finished: Unsigned
    """Of these, the jobs that were done: the rows of the table."""
    late: Unsigned
    """Of ``finished``, those that were done after their deadline."""
    unstarted: Unsigned
    """Of ``released``, those that had not begun when the duration was over: each missed its deadline."""
    overruns: Unsigned
    """Jobs whose release had passed when the job before them was done."""
    median_response_units: Unsigned | None = None
    """From release to finish, in cycles; none without a finished job."""
    worst_response_units: Unsigned | None = None


class RtloadOutcome(Model):
    """What ``rtload`` tells besides the table ``jobs``."""

    start_monotonic_ns: Unsigned
    """The release of the first job of every task, by ``CLOCK_MONOTONIC``."""
    conversion: ClockConversion
    """How releases, which are programmed in ``CLOCK_MONOTONIC``, were brought to the time-stamp counter."""
    tasks: list[RealTimeTaskOutcome]
    """In the order of the request."""
