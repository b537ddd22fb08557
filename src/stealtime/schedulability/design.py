"""What a set may become: priorities with which it is schedulable, and the room of each of its tasks.

Priorities: N. C. Audsley, "Optimal Priority Assignment and Feasibility of Static Priority Tasks with Arbitrary Start
Times" (YCS-164, University of York, 1991). From the lowest priority up, any task whose bound holds there gets it. A
bound here depends on which tasks have higher and lower priorities, not on their order, and a task that is moved up
loses more interference than it gains in blocking (a critical section is at most its owner's cost). So where this
finds none, no order has bounds within all deadlines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stealtime import _core
from stealtime.schedulability.document import AnalysisDocument, AssignmentDocument, CpuDocument, TaskDocument
from stealtime.schedulability.margins import levels_in
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.starts import refuse_starts
from stealtime.schedulability.task_file import HIGHEST_PRIORITY, TaskFile, TaskTable
from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime._core import QuestionDict


@dataclass(frozen=True)
class Assigned:
    """A task file with priorities, where there are some, and what was found of each CPU."""

    file: TaskFile
    outcomes: dict[int, AssignmentDocument]


def assign_priorities(file: TaskFile, terms: Terms) -> Assigned:
    """Give each CPU priorities with which all deadlines are met; one that has none keeps its order.

    Raises:
        UsageError: A CPU has more tasks than SCHED_FIFO has priorities, the policy has none, or tasks start each other.
    """
    if terms.policy == "edf":
        raise UsageError("--assign: under EDF priorities do not count", hint="leave it out, or --policy fixed-priority")
    refuse_starts(file, "--assign")
    overheads = terms.overheads.at(len(file.tasks))
    tasks: list[TaskTable] = []
    outcomes = {}
    for cpu in file.cpus():
        here = file.on(cpu)
        if len(here) > HIGHEST_PRIORITY:
            raise UsageError(
                f"--assign: CPU {cpu} has {len(here)} tasks, and SCHED_FIFO has {HIGHEST_PRIORITY} priorities",
                hint="move tasks to another CPU",
            )
        order, stuck = _ordered(here, terms, overheads)
        if stuck:
            # So that all CPUs have priorities; those of this one are its own, or by deadline.
            names = ", ".join(task.name for task in stuck)
            because = (
                f"at priority {len(here) - len(order)} none of {names} meets its deadline, whatever goes before it"
            )
            outcomes[cpu] = AssignmentDocument(found=False, because=because)
            order = [task for task in here if task.reservation is None]
        else:
            outcomes[cpu] = AssignmentDocument(found=True, because=None)
        tasks += [task for task in here if task.reservation is not None]
        tasks += [task.model_copy(update={"priority": len(order) - rank}) for rank, task in enumerate(order)]
    places = {task.name: number for number, task in enumerate(file.tasks)}
    return Assigned(file.model_copy(update={"tasks": sorted(tasks, key=lambda task: places[task.name])}), outcomes)


def _ordered(
    here: Sequence[TaskTable], terms: Terms, overheads: dict[str, int]
) -> tuple[list[TaskTable], list[TaskTable]]:
    """Give the order, and who is left where none of them can be next."""
    # The one with most time is tried first, so that the order stays near that of deadlines.
    left = sorted(here, key=lambda task: task.deadline_ns - (task.jitter or 0))
    reserved = [task for task in here if task.reservation is not None]
    left = [task for task in left if task.reservation is None]
    lowest: list[TaskTable] = []
    while left:
        for candidate in reversed(left):
            others = [task for task in left if task is not candidate]
            answer = _core.analyze_tasks(question_of([*reserved, *others, candidate, *lowest], terms, overheads))
            bound, _, _ = (answer["responses"] or [])[len(reserved) + len(others)]
            if bound is not None and bound <= candidate.deadline_ns:
                left, lowest = others, [candidate, *lowest]
                break
        else:
            return lowest, left
    return lowest, []


def with_room(document: AnalysisDocument, file: TaskFile, terms: Terms) -> AnalysisDocument:
    """Add to each task how much longer it may run, and how much more often it may come, all others unchanged.

    Raises:
        UsageError: Tasks start each other.
    """
    refuse_starts(file, "--sensitivity")
    overheads = terms.overheads.at(len(file.tasks))
    cpus = []
    for cpu in document.cpus:
        tasks = file.ordered_for(cpu.cpu, terms.policy)
        question = question_of(tasks, terms, overheads)
        levels = levels_in(tasks, question)
        rooms = tuple(_room(one, question, levels, number) for number, one in enumerate(cpu.tasks))
        cpus.append(cpu.model_copy(update={"tasks": rooms}))
    return document.model_copy(update={"cpus": tuple(cpus), "has_room": True})


def _room(task: TaskDocument, question: "QuestionDict", levels: list[tuple[int, int]], number: int) -> TaskDocument:
    if task.reservation is not None:
        return task.model_copy(update={"room_because": "its reservation bounds it"})
    try:
        cost, period = _core.task_sensitivity(question, levels, number)
    except ValueError as error:
        return task.model_copy(update={"room_because": str(error)})
    return task.model_copy(update={"longest_cost_ns": cost, "shortest_period_ns": period})


def with_assignment(document: AnalysisDocument, outcomes: dict[int, AssignmentDocument]) -> AnalysisDocument:
    """Add to each CPU whether priorities were found."""

    def told(cpu: CpuDocument) -> CpuDocument:
        return cpu.model_copy(update={"assignment": outcomes[cpu.cpu]})

    return document.model_copy(update={"cpus": tuple(map(told, document.cpus))})
