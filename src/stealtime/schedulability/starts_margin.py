"""How far tasks that start each other are from the edge: all CPUs together, as ends on one CPU are starts on others.

Each question is answered by bisection over :func:`stealtime.schedulability.starts.meets_deadlines`, as bounds grow with
costs and overheads, and shrink with the budget.
"""

import bisect
from collections.abc import Callable
from dataclasses import replace

from stealtime import _core
from stealtime.schedulability.margins import Margins
from stealtime.schedulability.question import Terms
from stealtime.schedulability.starts import meets_deadlines
from stealtime.schedulability.supply import Supply
from stealtime.schedulability.task_file import TaskFile, TaskTable


def margins_together(file: TaskFile, terms: Terms, overheads: dict[str, int]) -> Margins:
    """Find margin, dominant overhead and smallest budget, one for all CPUs.

    Args:
        file: Tasks of which some start others.
        terms: Fixed priorities.
        overheads: In ns.
    """
    try:
        margin, is_largest = _margin(file, terms, overheads)
        influences = [
            (name, ns, _margin(file, terms, {**overheads, name: 0})[0]) for name, ns in overheads.items() if ns > 0
        ]
        budget = None
        if terms.budget_period_ns is not None:
            budget = _least_budget(file, terms, overheads, terms.budget_period_ns)
    except ValueError as error:
        return Margins(because=str(error))
    return Margins(margin, is_largest, tuple(influences), budget)


def _margin(file: TaskFile, terms: Terms, overheads: dict[str, int]) -> tuple[int | None, bool]:
    """As :func:`stealtime.schedulability.margins.margin_of`.

    A ``least_cost`` is never above the cost. Where the cost makes it shorter, a smaller factor lets jobs start earlier,
    so that of factors in between nothing is known. From 1 on bounds only grow.
    """
    one = _core.PARTS_PER_MILLION
    # No cost can exceed its period; with this factor one does.
    too_much = min(task.period * one // task.cost for task in file.tasks) + 1

    def fits(millionths: int) -> bool:
        return meets_deadlines(_scaled(file, millionths), terms, overheads)

    found = _greatest(one, too_much, fits) or _greatest(0, one, fits)
    if found is None:
        return None, True
    factor, is_known = found
    beyond = _scaled(file, factor + 1)
    shortened = any(one.least_cost != task.least_cost for one, task in zip(beyond.tasks, file.tasks, strict=True))
    return factor, is_known and not shortened


def _least_budget(file: TaskFile, terms: Terms, overheads: dict[str, int], period_ns: int) -> int | None:
    def fits(spared_ns: int) -> bool:
        supply = Supply("periodic", (period_ns, period_ns - spared_ns, period_ns))
        return meets_deadlines(file, replace(terms, supply=supply), overheads)

    found = _greatest(0, period_ns, fits)
    return None if found is None else period_ns - found[0]


def _greatest(least: int, too_much: int, fits: Callable[[int], bool]) -> tuple[int, bool] | None:
    """Give the largest number that fits, from ``least`` to below ``too_much``, and whether the next one surely fails.

    None where ``least`` does not fit, or where that is not known.
    """
    unknown: set[int] = set()

    def fails(number: int) -> bool:
        try:
            return not fits(number)
        except ValueError:
            unknown.add(number)
            return True

    if least >= too_much or fails(least):
        return None
    first = bisect.bisect_left(range(too_much), True, lo=least + 1, key=fails)
    return first - 1, first not in unknown


def _scaled(file: TaskFile, millionths: int) -> TaskFile:
    def scaled(task: TaskTable) -> TaskTable:
        cost = max(1, -(-task.cost * millionths // _core.PARTS_PER_MILLION))
        least = None if task.least_cost is None else min(task.least_cost, cost)
        return task.model_copy(update={"cost": cost, "least_cost": least})

    return file.model_copy(update={"tasks": [scaled(task) for task in file.tasks]})
