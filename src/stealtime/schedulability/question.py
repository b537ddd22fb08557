"""The question about one CPU, as the analysis takes it: tasks in their order, overheads, supply."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stealtime.schedulability.blocking import blocking_times
from stealtime.schedulability.document import Accounting, Policy
from stealtime.schedulability.interference import interference_of
from stealtime.schedulability.overheads import NO_OVERHEADS, OverheadModel
from stealtime.schedulability.reservation import Charged
from stealtime.schedulability.supply import DEDICATED, Supply
from stealtime.schedulability.task_file import HIGHEST_PRIORITY, TaskTable

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

CorePolicy = Literal["fixed-priority by job", "fixed-priority by stretch", "edf"]


@dataclass(frozen=True)
class Terms:
    """Under what a task set is analysed."""

    policy: Policy = "fixed-priority"
    accounting: Accounting = "job"
    """Of fixed priorities alone."""
    overheads: OverheadModel = NO_OVERHEADS
    interrupts: Literal["here", "on another CPU"] = "here"
    supply: Supply = DEDICATED
    interference: bool = True
    """Charge what the overheads' trace saw take the CPU beside them."""
    budget_period_ns: int | None = None
    """Also find the smallest budget of a periodic resource of this period."""

    @property
    def accounting_used(self) -> Accounting | None:
        return self.accounting if self.policy == "fixed-priority" else None


def core_policy(policy: Policy, accounting: Accounting) -> CorePolicy:
    if policy == "edf":
        return "edf"
    return "fixed-priority by job" if accounting == "job" else "fixed-priority by stretch"


def question_of(tasks: list[TaskTable], terms: Terms, overheads: dict[str, int]) -> "QuestionDict":
    """Put the tasks of a CPU, in their order, as the analysis takes them; overheads in ns."""
    charged = Charged(overheads, terms.overheads.tick_period_ns, terms.interrupts)
    # Under EDF, blocking depends on the window: `levels_of_windows`.
    blocking = [0] * len(tasks) if terms.policy == "edf" else blocking_times(tasks)
    return {
        "tasks": [
            (task.cost, task.period, task.deadline_ns, task.jitter or 0, blocked)
            if (server := task.server) is None
            else server.as_interference(charged.holds_whole_jobs(task, server, tasks))
            for task, blocked in zip(tasks, blocking, strict=True)
        ],
        "levels": [] if terms.policy == "edf" else _levels(tasks),
        "overheads": list(overheads.items()),
        "interference": interference_of(terms, tasks, overheads),
        "tick_period_ns": terms.overheads.tick_period_ns,
        "interrupts": terms.interrupts,
        "policy": core_policy(terms.policy, terms.accounting),
        "supply": terms.supply.for_core(),
    }


def _levels(tasks: list[TaskTable]) -> list[int]:
    """Give the priority of each task, reservations above all; none where the order of the tasks is that of them."""
    if all(task.priority is None for task in tasks):
        return []
    above = itertools.count(HIGHEST_PRIORITY + 1)
    return [next(above) if task.priority is None else task.priority for task in tasks]
