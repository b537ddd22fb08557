"""The task set of a trial, from the parameters of its cell. Pure."""

from typing import Literal

from pydantic import Field

from stealtime.campaigns.parameters import Parameters
from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.vocabulary.readings import Model
from stealtime.wire.rtload import DrawnTaskSet, RealTimePolicy, RealTimeTask


class GivenTaskParameters(Model):
    """A task of a set that is given."""

    name: str
    cost_ns: int
    period_ns: int
    deadline_ns: int


class TaskSetParameters(Parameters):
    """The task set of a cell, drawn or given, and how it runs."""

    policy: RealTimePolicy
    loop_ns: int
    periods: str = "moderate"
    deadlines: str = "implicit"
    over_utilized: str = "redraw"
    seed: int = 1
    work_percent: int = 95
    budget_percent: int = 100
    polluters: int = 0
    polluter_bytes: int = 4 << 20
    releases: Literal["here", "elsewhere"] = "here"
    set_name: str | None = Field(default=None, alias="set")
    """Of a set that is given."""
    tasks: tuple[GivenTaskParameters, ...] = ()
    """They."""
    total: float | None = None
    law: str | None = None
    """Of a set that is drawn."""
    tasks_per_cpu: int | None = None

    def recipe(self, repetition: int) -> Recipe:
        """Give how the set of a repetition is drawn: each next repetition has the next seed, on all platforms alike."""
        return Recipe(
            law=self.law or "",
            per_cpu=self.tasks_per_cpu or 0,
            seed=self.seed + repetition - 1,
            total=self.total,
            periods=self.periods,
            deadlines=self.deadlines,
            over_utilized=self.over_utilized,
        )

    def task_set(self, repetition: int) -> tuple[list[TaskTable], DrawnTaskSet | None]:
        """Give the set of a repetition, the most urgent task first, and how it was drawn, unless it is given.

        Raises:
            StealtimeError: No set keeps to the rule for over-utilized sets.
        """
        if self.tasks:
            return TaskFile.model_construct(tasks=[_table(task) for task in self.tasks], chains=[], generated=None).on(
                0
            ), None
        file = generate(self.recipe(repetition))
        drawn = file.generated
        if drawn is None:
            raise TypeError("a generated set tells how it was drawn")
        names = DrawnTaskSet.model_fields.keys()
        return file.on(0), DrawnTaskSet(**{name: getattr(drawn, name) for name in names})

    def work_of(self, task: TaskTable, loop_iterations: int) -> RealTimeTask:
        """Give a task whose jobs do a share of its cost: what is left is for what the calibration does not know of.

        Args:
            task: Its cost is in ns.
            loop_iterations: Of the busy loop, that take its length natively, undisturbed.
        """
        budget_ns = min(task.deadline_ns, round(task.cost * self.budget_percent / 100))
        return RealTimeTask(
            name=task.name,
            period_ns=task.period,
            deadline_ns=task.deadline_ns,
            cost_ns=task.cost,
            budget_ns=budget_ns if self.policy == "deadline" else None,
            iterations=max(1, round(task.cost * self.work_percent / 100 * loop_iterations / self.loop_ns)),
        )


DEFAULTS = [name for name, one in TaskSetParameters.model_fields.items() if isinstance(one.default, int | str)]
"""The parameters that have one: they stand in a cell only where they are something else."""


def _table(task: GivenTaskParameters) -> TaskTable:
    return TaskTable.model_construct(
        name=task.name,
        cost=task.cost_ns,
        period=task.period_ns,
        deadline=task.deadline_ns,
        jitter=None,
        blocking=None,
        priority=None,
        cpu=0,
    )
