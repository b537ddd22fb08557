"""What ``stealtime sched extract --json`` and ``sched verify --json`` print."""

from typing import Literal

from stealtime.schedulability.document import AnalysisDocument, Verdict
from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
"""Rises when a key goes away or means something else; new figures and keys do not raise it."""

ArrivalKind = Literal["programmed", "observed", "sporadic", "too few"]


class CurvePointDocument(Model):
    """So many jobs arrived within so short a time at the closest."""

    jobs: int
    within_ns: int


class ArrivalDocument(Model):
    """How jobs arrive."""

    kind: ArrivalKind
    """``programmed``: the program set its timers on a grid. ``observed``: its wake-ups lie on one beyond chance.
    ``sporadic``: on none, or on none that is beyond chance."""
    arrivals: int
    """So many it is known from."""
    period_ns: int | None
    """Of the grid; of sporadic arrivals in the mean; null where there are too few."""
    period_error_ns: int
    """By how much the period of a grid may be wrong."""
    jitter_ns: int
    """The most that an arrival is later than the earliest against the grid; of sporadic arrivals what the mean period
    needs to cover all of them."""
    missed_periods: int
    """Places of the grid without an arrival."""
    restarts: int
    """How often the program set its timers on a grid anew, as some do after they were late."""
    least_distance_ns: int | None
    """Of sporadic arrivals: two at the closest."""
    curve: tuple[CurvePointDocument, ...]
    """Of sporadic arrivals."""


class CostDocument(Model):
    """What a job takes of a CPU: the most that was seen."""

    jobs: int
    """So many it is the most of."""
    own_ns: int
    """Between the return of the call in which it waited and the next such call, without interrupts, and without what
    the host took."""
    with_calls_ns: int
    """The same with the way out of the one call and into the other: what the task file says."""
    first_half_ns: int
    second_half_ns: int
    """``own_ns`` of the jobs of each half of the time: where the second is larger it still grows."""
    interrupts_ns: int
    """Of interrupts over a job, at most: they are no job's own."""


class HostDocument(Model):
    """What the machine's host took of jobs, by the host's trace."""

    jobs: int
    """Of which the host may have taken some. They are not among those that the cost is of, unless nearly all are."""
    are_counted: bool
    taken_ns: int
    """Of one job, at most, for sure."""
    own_ns: int
    """What the longest of them took of its own, without that."""


class LeftOutDocument(Model):
    """What was not counted, by reason."""

    holed: int
    """Jobs with events lost in them."""
    merged: int
    """Jobs that ran into the next period: nobody knows where one ended and the next began."""
    unseen_switches: int
    """Jobs to which the kernel did not tell the switch. Their cost is known where calls are told."""


class TaskDocument(Model):
    """A thread as a task."""

    name: str
    """Unlike all others: a name that several have is followed by the thread's number."""
    thread: int
    process: int
    policy: str
    priority: int | None
    """Of ``SCHED_FIFO`` and ``SCHED_RR``."""
    deadline_ns: int | None
    """Declared, under ``SCHED_DEADLINE``; a trace tells none."""
    reserved_ns: int | None
    """Declared, under ``SCHED_DEADLINE``: the runtime in each period."""
    reserved_period_ns: int | None = None
    """Declared, under ``SCHED_DEADLINE``: that period."""
    cpus: tuple[int, ...]
    """Where it ran, most first."""
    arrival: ArrivalDocument
    cost: CostDocument
    suspended_ns: int
    """Waits inside one job, at most."""
    suspending: int
    """Jobs with a wait inside."""
    response_ns: int
    """From the programmed release, or else the wake-up, to the job's end, at most."""
    lateness_ns: int | None
    """From the programmed release to the wake-up, at most; null where no timer wakes it."""
    lateness_median_ns: int | None
    host: HostDocument | None
    """null natively, and where the host was not seen."""
    left_out: LeftOutDocument
    seen_percent: float | None
    """Of the time that the kernel counts for the thread, in the trace; null where it does not count."""
    notes: tuple[str, ...]
    """How sure, and what could not be told."""
    excluded: str | None
    """Why it is not in the task file."""


class ExtractDocument(Model):
    """The tasks of a program."""

    schema_version: int = SCHEMA_VERSION
    machine: str
    program: str
    """The command, or the process."""
    watched_ns: int
    events: int
    lost_events: int
    host: str
    """Where what the host took is known from, or why it is not."""
    tasks: tuple[TaskDocument, ...]
    quiet_threads: tuple[str, ...]
    """Threads that did not begin a job while they were watched."""
    notes: tuple[str, ...]
    task_file: str | None
    """The TOML that ``stealtime sched analyze`` reads; null where there is no task for it."""


class VerifyDocument(Model):
    """Whether the tasks of a program meet their deadlines, and what would break that first."""

    schema_version: int = SCHEMA_VERSION
    verdict: Verdict
    summary: str
    """One sentence."""
    first: str | None
    """The task that misses first when all costs grow, or misses now."""
    cost_factor: float | None
    """The largest factor of all costs with which the set is schedulable."""
    dominant_overhead: str | None
    overheads: str
    """Where they come from, or that they were not measured."""
    notes: tuple[str, ...]
    analysis: AnalysisDocument | None
    """null where there was nothing to analyse."""
    extracted: ExtractDocument
