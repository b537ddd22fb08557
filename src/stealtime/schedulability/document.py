"""What ``stealtime sched analyze --json`` and ``sched curve --json`` print."""

from typing import Literal

from stealtime.vocabulary.readings import Model

SCHEMA_VERSION = 1
"""Rises when a key goes away or means something else; new figures and keys do not raise it."""

Verdict = Literal["schedulable", "not schedulable", "not judged"]
TaskVerdict = Literal["meets its deadline", "misses its deadline", "not judged"]
Policy = Literal["fixed-priority", "edf"]
Accounting = Literal["job", "stretch"]


class TaskDocument(Model):
    """One task, in the order of priority (EDF: of deadlines)."""

    name: str
    priority: int | None
    cost_ns: int
    period_ns: int
    deadline_ns: int
    jitter_ns: int
    response_ns: int | None
    """The bound of the response time, from arrival to end; null where there is none."""
    at_least_ns: int | None
    """What a bound that was not found is at least; null where there is a bound, and where there can be none."""
    unbounded: bool = False
    """There is no bound: tasks and overheads demand more in the long run than the CPU supplies."""
    verdict: TaskVerdict | None
    """null under EDF where nothing is known of responses."""
    because: str | None
    """Why there is no bound."""
    reservation: str | None = None
    """Of SCHED_DEADLINE: runtime, period and deadline, above all fixed priorities."""
    longest_cost_ns: int | None = None
    """With ``--sensitivity``: the longest cost with which the set is schedulable, all others unchanged; null: not even
    1 ns, or it was not asked."""
    shortest_period_ns: int | None = None
    """The shortest period likewise; a deadline that equals the period goes with it. null: none is long enough."""
    room_because: str | None = None
    """Why neither is judged."""
    after: str | None = None
    """The task whose job's end starts this one's; response and deadline then count from the event that starts the
    first of them."""
    executor: str | None = None
    """The thread that runs this callback."""
    ready_ns: int | None = None
    """Of a task that another one starts: at most, from that event to when its job is ready; null: no other task starts
    it, or that one has no bound."""


class DemandDocument(Model):
    """EDF: the window that decides: the first in which more is due than is certainly served, or else the tightest."""

    window_ns: int
    """From when all tasks are released, each as late as it may be, to a deadline."""
    demand_ns: int
    """Due in it, with overheads: jobs, and the interrupts until they are done."""
    service_ns: int
    """Certainly served in it."""
    slack_ns: int
    """Service less demand: negative where the set is not schedulable."""


class InfluenceDocument(Model):
    """One overhead that is not 0, and what it takes of the margin."""

    overhead: str
    overhead_ns: int
    cost_factor_without: float | None
    """The margin if this overhead alone were 0; null: there is none even then."""


class AllowedDocument(Model):
    """What holds where a share of the jobs may miss: taken from what a run observed, and proven for no share."""

    misses_percent: float
    """Of the jobs."""
    overheads: str
    """Which statistic of the samples, or that they do not depend on the share."""
    gaps_left_out: int | None
    """Of the observed supply, the longest; null: the supply was not observed, or there are no such overheads."""
    verdict: Verdict
    because: str | None
    cost_factor: float | None
    """As of the CPU."""
    least_budget_ns: int | None
    """As of the CPU."""


class AssignmentDocument(Model):
    """``--assign``: Audsley's search for priorities."""

    found: bool
    """Whether with some order all deadlines are met; the tasks have its priorities, or else those by deadline."""
    because: str | None
    """Where the search ended."""


class CpuDocument(Model):
    """The tasks of one CPU."""

    cpu: int
    verdict: Verdict
    because: str | None
    """What decided, where it is not schedulable or not judged."""
    utilization_percent: float
    """Of the tasks alone, without overheads."""
    tasks: tuple[TaskDocument, ...]
    demand: DemandDocument | None
    """Under EDF alone; null where no window decides."""
    demand_because: str | None
    """Under EDF: why no window that decides was found."""
    cost_factor: float | None
    """The largest factor of all costs with which the set is schedulable, in steps of a millionth; null: there is
    none, or it is not judged."""
    cost_factor_is_lower_bound: bool = False
    """With a larger factor it is not known: the analysis then ends without a verdict."""
    margin_is_of_all_cpus: bool = False
    """Factors and budget are of all CPUs together, as tasks start each other."""
    overheads: tuple[InfluenceDocument, ...]
    dominant_overhead: str | None
    """The one without which the margin is largest; null where none takes anything."""
    least_budget_ns: int | None
    """The smallest budget of a periodic resource of ``budget_period_ns``; null: not asked, or none is enough."""
    margin_because: str | None
    """Why margin, overheads or budget are not judged."""
    allowed: tuple[AllowedDocument, ...] = ()
    """With shares of misses allowed, where that was asked for."""
    assignment: AssignmentDocument | None = None
    """null: not asked."""


class ChainDocument(Model):
    """A chain of tasks that hand data over."""

    name: str
    tasks: tuple[str, ...]
    """In the order of the data."""
    age_ns: int | None
    """At most, from when the first task read to when the last wrote what depends on it; null: a task has no bound."""
    reaction_ns: int | None
    """At most, from an event to when the last task has written what depends on it."""
    max_age_ns: int | None
    """What the file allows; null: anything."""
    max_reaction_ns: int | None
    verdict: Verdict
    """schedulable: within what is allowed."""
    because: str | None


class NotChargedDocument(Model):
    """Something that takes the CPU from the tasks and is in no figure of the analysis."""

    what: str
    longest_ns: int | None
    """That was seen at once; null: not known."""
    count: int | None
    """How often it was seen."""
    share_percent: float | None
    """Of the time of a CPU that was traced, of the trials in which it took most."""
    because: str | None
    """Why no size is known."""


class InterferenceDocument(Model):
    """Something that the overheads' trace saw take the CPU, and that is charged as it was seen."""

    what: str
    longest_ns: int
    """That was seen at once."""
    count: int
    """How often it was seen."""
    share_percent: float
    """Of the time of a CPU that was traced, of the trials in which it took most."""
    curves: tuple[tuple[int, int, int], ...]
    """Cost, period and jitter, each in ns: in any window w at most ceil((w + jitter) / period) times the cost, added up
    over all of them."""


class AnalysisDocument(Model):
    """Is a task set schedulable, with what margin, and which overhead costs most?"""

    schema_version: int = SCHEMA_VERSION
    file: str
    format: str = "toml"
    """What the file was read as: toml, sheet, lime, rt-app, schedcat, cheddar or simso."""
    remarks: tuple[str, ...] = ()
    """What the file says that tasks cannot express, and how it was taken, a sentence each."""
    policy: Policy
    accounting: Accounting | None
    """Fixed priorities: whether each job or each stretch of one running job is charged."""
    bound: str
    """The analysis, with its source."""
    supply: str
    overheads: str
    """Where they come from."""
    tick_period_ns: int
    interrupts: Literal["here", "on another CPU"]
    budget_period_ns: int | None
    verdict: Verdict
    """Of all CPUs and chains together."""
    cpus: tuple[CpuDocument, ...]
    has_room: bool = False
    """Whether the tasks have their room, of ``--sensitivity``."""
    chains: tuple[ChainDocument, ...] = ()
    interference: tuple[InterferenceDocument, ...] = ()
    """What else is charged: as the overheads' trace saw it."""
    not_charged: tuple[NotChargedDocument, ...] = ()
    """What the verdict does not cover."""


class PlacedDocument(Model):
    """One virtual CPU of ``sched place``, and what proves it."""

    name: str
    supply: str
    cpu: CpuDocument | None
    """Its analysis; null: no task is on it."""


class PlacementDocument(Model):
    """Which task on which virtual CPU."""

    schema_version: int = SCHEMA_VERSION
    file: str
    format: str = "toml"
    """As of :class:`AnalysisDocument`."""
    remarks: tuple[str, ...] = ()
    policy: Policy
    overheads: str
    fit: Literal["first", "best", "worst", "search"]
    """What was asked for."""
    found_by: str | None
    """What found the placement; null: nothing."""
    verdict: Verdict
    """schedulable: placed; not schedulable: no placement is accepted, all were tried."""
    because: str | None
    analyses: int
    """How many sets the analysis was asked about."""
    placed: tuple[PlacedDocument, ...]
    """In the order of the options; empty where there is no placement."""


class CurveShare(Model):
    """The sets of one utilization under one condition."""

    sets: int
    schedulable: int
    schedulable_share: float | None
    """Of the sets that are judged; null: none is."""
    low: float | None
    """The ends of its confidence interval."""
    high: float | None
    not_judged: int
    """Sets."""


class CurvePoint(Model):
    """The sets of one utilization."""

    utilization: float
    """Of the tasks alone; each set is filled up to it."""
    conditions: tuple[CurveShare, ...]
    """In the order of the document's ``conditions``."""


class WeightedDocument(Model):
    """One number for a curve: the shares weighted by utilization (Bastoni, Brandenburg, Anderson, OSPERT 2010)."""

    condition: str
    schedulability: float | None
    """null: at some utilization no set is judged."""
    cost: float | None
    """How much less that is than that of the first condition; null: at some utilization no set is judged."""
    cost_low: float | None
    """The ends of the cost's confidence interval; sets that are not judged are schedulable at one, not at the other."""
    cost_high: float | None
    half_utilization: float | None
    """Up to which utilization at least half of the sets are schedulable, between points by a line; null: nowhere, or
    it is not judged."""


class CurveDocument(Model):
    """Which share of random sets is schedulable, by utilization and condition; all conditions see the same sets."""

    schema_version: int = SCHEMA_VERSION
    law: str
    periods: str
    deadlines: str
    sets: int
    """Of each utilization."""
    seed: int
    policy: Policy
    accounting: Accounting | None
    interrupts: Literal["here", "on another CPU"]
    confidence_percent: float
    conditions: tuple[str, ...]
    points: tuple[CurvePoint, ...]
    weighted: tuple[WeightedDocument, ...]
    remarks: tuple[str, ...] = ()
    """For which numbers of tasks the overheads are known."""
