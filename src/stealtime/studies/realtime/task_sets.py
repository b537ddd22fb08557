"""The task set of a trial, from the parameters of its cell. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from stealtime.campaigns.probe import whole
from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.wire.rtload import DrawnTaskSet, RealTimeTask

DEFAULTS: Mapping[str, JsonValue] = {
    "periods": "moderate",
    "deadlines": "implicit",
    "over_utilized": "redraw",
    "seed": 1,
    "work_percent": 95,
    "budget_percent": 100,
    "polluters": 0,
    "polluter_bytes": 4 << 20,
}
"""Of the parameters that stand in a cell only where they are something else."""


def parameter(parameters: Mapping[str, JsonValue], name: str) -> JsonValue:
    return parameters.get(name, DEFAULTS.get(name))


def recipe_of(parameters: Mapping[str, JsonValue], repetition: int) -> Recipe:
    """Give how the set of a repetition is drawn: each next repetition has the next seed, on all platforms alike."""
    total = parameters.get("total")
    return Recipe(
        law=str(parameters["law"]),
        per_cpu=whole(parameters["tasks_per_cpu"]),
        seed=whole(parameter(parameters, "seed")) + repetition - 1,
        total=float(total) if isinstance(total, int | float) else None,
        periods=str(parameter(parameters, "periods")),
        deadlines=str(parameter(parameters, "deadlines")),
        over_utilized=str(parameter(parameters, "over_utilized")),
    )


def draw(parameters: Mapping[str, JsonValue], repetition: int) -> tuple[list[TaskTable], DrawnTaskSet]:
    """Draw the set of a repetition, the most urgent task first.

    Raises:
        StealtimeError: No set keeps to the rule for over-utilized sets.
    """
    file = generate(recipe_of(parameters, repetition))
    drawn = file.generated
    if drawn is None:
        raise TypeError("a generated set tells how it was drawn")
    names = DrawnTaskSet.model_fields.keys()
    return file.on(0), DrawnTaskSet(**{name: getattr(drawn, name) for name in names})


def given(tasks: Sequence[Mapping[str, JsonValue]]) -> list[TaskTable]:
    """Give the set that a cell lists, the most urgent task first."""
    tables = [
        TaskTable.model_construct(
            name=str(task["name"]),
            cost=whole(task["cost_ns"]),
            period=whole(task["period_ns"]),
            deadline=whole(task["deadline_ns"]),
            jitter=None,
            blocking=None,
            priority=None,
            cpu=0,
        )
        for task in tasks
    ]
    return TaskFile.model_construct(tasks=tables, generated=None).on(0)


def work_of(
    task: TaskTable, loop_ns: int, loop_iterations: int, work_percent: int, budget_percent: int | None
) -> RealTimeTask:
    """Give a task whose jobs do a share of its cost, in iterations of the busy loop.

    Args:
        task: Its cost is in ns.
        loop_ns: A length of the busy loop ...
        loop_iterations: ... and the iterations that take it natively, undisturbed.
        work_percent: Of the cost: what is left is for what the calibration does not know of.
        budget_percent: Of the cost; at most the deadline. None for no budget.
    """
    budget_ns = None if budget_percent is None else min(task.deadline_ns, round(task.cost * budget_percent / 100))
    return RealTimeTask(
        name=task.name,
        period_ns=task.period,
        deadline_ns=task.deadline_ns,
        cost_ns=task.cost,
        budget_ns=budget_ns,
        iterations=max(1, round(task.cost * work_percent / 100 * loop_iterations / loop_ns)),
    )
