"""``rtload``: periodic tasks whose jobs do a fixed amount of work, under real-time scheduling."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from stealtime.campaigns.parameters import Asked
from stealtime.campaigns.probe import Percentiles, Probe, ProbeCells
from stealtime.studies.realtime.results import JOBS_OF_TASKS
from stealtime.studies.realtime.task_sets import DEFAULTS, GivenTaskParameters, TaskSetParameters
from stealtime.studies.realtime.wording import describe
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.quantities import DurationNs, SizeBytes, format_duration
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.rtload import RealTimePolicy, RtloadProbe

MOST_TASKS = 99
"""Each has a priority of its own."""
Laws = Annotated[list[str], BeforeValidator(lambda law: [law] if isinstance(law, str) else law), Field(min_length=1)]
TaskCounts = Annotated[list[Annotated[int, Field(ge=1, le=MOST_TASKS)]], Field(min_length=1)]


_LONGEST_PERIOD_NS = 3_600_000_000_000
_MOST_JOBS = (1 << 32) - 1
"""Both as ``crates/probe/src/rtload/mod.rs`` has them: products of the one stay far from overflow, and the other is
what a column of the table of jobs can tell apart."""


class GivenTask(Table):
    """``[[probes.tasks]]``: one task of a set that is given."""

    name: str | None = Field(default=None, min_length=1)
    """Default: t1, t2 ... in the order of the file."""
    cost_ns: DurationNs = Field(alias="cost")
    """What a job is meant to take natively."""
    period_ns: DurationNs = Field(alias="period", ge=100_000)
    """From one release to the next."""
    deadline_ns: DurationNs | None = Field(default=None, alias="deadline")
    """From a release to when the job must have finished; the period if left out."""


class RtloadParameters(TaskSetParameters):
    """The task set, as the agent is asked for it."""

    @property
    def words(self) -> str:
        return describe(self.stored)

    @property
    def memory_bytes(self) -> int:
        return self.polluters * self.polluter_bytes

    def request(self, iterations: Mapping[int, int], repetition: int) -> RtloadProbe:
        tasks, drawn = self.task_set(repetition)
        return RtloadProbe(
            policy=self.policy,
            tasks=[self.work_of(task, iterations[self.loop_ns]) for task in tasks],
            polluters=self.polluters,
            polluter_bytes=self.polluter_bytes,
            released_elsewhere=self.releases == "elsewhere",
            drawn=drawn,
        )

    def refuse(self, asked: Asked) -> None:
        tasks, _ = self.task_set(asked.repetition)
        what = f"rtload, {self.words} (repetition {asked.repetition})"
        if self.policy == "fifo" and len(tasks) > asked.priority:
            raise UsageError(
                f"{what}: {len(tasks)} tasks need as many priorities, and the first one's is {asked.priority}",
                hint=f"use a priority of at least {len(tasks)} (-p), or fewer tasks",
            )
        longest = max(tasks, key=lambda task: task.deadline_ns)
        if longest.deadline_ns > asked.duration_ns:
            raise UsageError(
                f"{what}: the task {longest.name} has a deadline of {format_duration(longest.deadline_ns)}, and no job "
                f"of it ends within a trial of {format_duration(asked.duration_ns)}",
                hint=f"measure for at least {format_duration(longest.deadline_ns)} (-D)",
            )
        for task in tasks:
            if task.period > _LONGEST_PERIOD_NS:
                raise UsageError(
                    f"{what}: the period of the task {task.name}, {format_duration(task.period)}, is too long",
                    hint=f"give it a period of {format_duration(_LONGEST_PERIOD_NS)} at most",
                )
            if (asked.duration_ns - task.deadline_ns) // task.period >= _MOST_JOBS:
                raise UsageError(
                    f"{what}: the task {task.name} has more than {_MOST_JOBS} jobs in a trial of "
                    f"{format_duration(asked.duration_ns)}",
                    hint=f"measure for {format_duration(_MOST_JOBS * task.period)} at most (-D)",
                )


class RtloadCells(ProbeCells):
    """``rtload``: periodic tasks whose jobs do a fixed amount of work; a set that is drawn, or given."""

    parameters = RtloadParameters

    probe: Literal["rtload"]
    """The name of the probe."""
    policy: RealTimePolicy = "fifo"
    """``fifo``: fixed priorities on one CPU, shorter deadlines first; ``deadline``: SCHED_DEADLINE."""
    laws: Laws | None = Field(default=None, alias="law")
    """The law of utilizations that sets are drawn by, as of ``stealtime sched generate --law``, or a list of laws."""
    tasks_per_cpu: TaskCounts = Field(default=[10], alias="k")
    """How many tasks are drawn; each number is a cell, of each law."""
    total: float | None = Field(default=None, gt=0)
    """The utilization of a set, where the law is of a fixed total."""
    periods: str = "moderate"
    """The law of periods."""
    deadlines: str = "implicit"
    """The law of relative deadlines."""
    over_utilized: str = "redraw"
    """What becomes of a drawn set with a utilization above 1; ``keep`` also lets a given one in."""
    seed: int = Field(default=1, ge=0, lt=1 << 62)
    """Of the set of the first repetition; each next repetition has the next seed, and so another set."""
    set_name: str | None = Field(default=None, alias="set", pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    """The name of the set that ``tasks`` gives."""
    tasks: list[GivenTask] | None = Field(default=None, min_length=1, max_length=MOST_TASKS)
    """A set that is given instead of drawn; all repetitions have it."""
    work_percent: int = Field(default=95, alias="work", ge=1, le=100)
    """How much of its cost a job takes natively, undisturbed."""
    budget_percent: int = Field(default=100, alias="budget", ge=1, le=10_000)
    """Of the cost: how long a job may run under the policy ``deadline`` before it is put off to the next period; at
    most its deadline. In a guest the same work may take more time than natively."""
    loop_ns: DurationNs = Field(default=68_000, alias="loop", ge=1_000)
    """The length of the busy loop by which work is calibrated."""
    polluters: int = Field(default=0, ge=0, le=1024)
    """Threads under ordinary scheduling that thrash the caches meanwhile, on the CPU of the tasks."""
    polluter_bytes: SizeBytes = Field(default=4 << 20, alias="polluter_memory", ge=4096)
    """The memory that each of them walks at random."""
    releases: Literal["here", "elsewhere"] = "here"
    """``here``: each task sleeps until its own releases; ``elsewhere``: a thread on another CPU, which the machine then
    needs, wakes the tasks, each with an inter-processor interrupt."""

    @field_validator("max_samples")
    @classmethod
    def _no_samples(cls, samples: int | None) -> int | None:
        if samples is not None:
            raise ValueError("rtload ends with its duration, not after a number of samples")
        return samples

    @model_validator(mode="after")
    def _is_a_set(self) -> Self:
        if (self.laws is None) == (self.tasks is None):
            raise ValueError("a set is either drawn (law) or given (tasks)")
        if (self.tasks is None) != (self.set_name is None):
            raise ValueError("a set that is given (tasks) needs a name (set), and only that")
        if self.tasks is not None:
            self._check_given(self.tasks)
        else:
            self._check_drawn()
        return self

    def _check_given(self, tasks: list[GivenTask]) -> None:
        if self.over_utilized not in ("redraw", "keep"):
            raise ValueError("over_utilized of a set that is given can only be keep")
        utilization = sum((Fraction(task.cost_ns, task.period_ns) for task in tasks), Fraction(0))
        if utilization > 1 and self.over_utilized != "keep":
            raise ValueError(
                f"the tasks have a utilization of {float(utilization):.4g}, more than 1: "
                'over_utilized = "keep" lets them in'
            )
        names = [task.name for task in self._given(tasks)]
        if len(set(names)) < len(names):
            raise ValueError("two tasks have the same name")
        for name, task in zip(names, tasks, strict=True):
            deadline_ns = task.period_ns if task.deadline_ns is None else task.deadline_ns
            if self.policy == "deadline" and not task.cost_ns <= deadline_ns <= task.period_ns:
                raise ValueError(
                    f"the task {name} has a deadline of {format_duration(deadline_ns)}: under the policy deadline it "
                    f"lies between its cost and its period"
                )

    def _check_drawn(self) -> None:
        if self.policy == "deadline" and self.deadlines == "arbitrary":
            raise ValueError("under the policy deadline no relative deadline exceeds its period: take other deadlines")
        for parameters in self.parameter_sets():
            try:
                parameters.task_set(1)
            except StealtimeError as error:
                words = f"{error}; {error.hint}" if error.hint else str(error)
                # What an option is called on the command line is a key here.
                raise ValueError(re.sub("--[a-z-]+", _as_key, words)) from None

    @staticmethod
    def _given(tasks: list[GivenTask]) -> tuple[GivenTaskParameters, ...]:
        return tuple(
            GivenTaskParameters(
                name=f"t{number}" if task.name is None else task.name,
                cost_ns=task.cost_ns,
                period_ns=task.period_ns,
                deadline_ns=task.period_ns if task.deadline_ns is None else task.deadline_ns,
            )
            for number, task in enumerate(tasks, start=1)
        )

    def parameter_sets(self) -> list[RtloadParameters]:
        """One cell for each number of tasks, or for the set that is given."""
        common = {name: getattr(self, name) for name in ("policy", "loop_ns", *DEFAULTS)}
        if self.tasks is not None:
            return [RtloadParameters(**common, set_name=self.set_name, tasks=self._given(self.tasks))]
        return [
            RtloadParameters(**common, total=self.total, law=law, tasks_per_cpu=number)
            for law in self.laws or ()
            for number in self.tasks_per_cpu
        ]


def _as_key(option: re.Match[str]) -> str:
    return option[0].removeprefix("--").replace("-", "_")


RTLOAD = Probe(
    name="rtload",
    cells=RtloadCells,
    short=("laws", "tasks_per_cpu"),
    needs_fifo=True,
    bounded="the lateness of its most urgent task",
    percentiles=Percentiles("the lateness of its most urgent task", ("50", "99", "99.9")),
    result=JOBS_OF_TASKS,
    extra_trace_groups=("timers", "scheduler"),
)
