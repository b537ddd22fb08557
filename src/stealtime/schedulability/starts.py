"""Tasks that other tasks start, and callbacks that share a thread, as in ROS 2: how long each takes from the event on.

*Starts.* Job k of the first task of a chain arrives at k T, with its jitter; the end of each job starts one job of each
task ``after`` it. With O the least and R the most time from that arrival to the end of the job that starts it, a
started task arrives at k T + O with jitter R - O; the bound of its response then gives the R of what it starts itself.
On a dedicated analysis of each CPU this is repeated from no jitter on until nothing changes, as every bound grows with
jitter: K. Tindell and J. Clark, "Holistic schedulability analysis for distributed hard real-time systems"
(Microprocessing and Microprogramming 40, 1994); R. Henia and others, "System level performance analysis: the SymTA/S
approach" (IEE Proceedings 152(2), 2005). A start on another CPU takes an inter-processor interrupt longer. Whatever
else overheads charge for a release that a timer makes is charged for a start, too.

*Threads.* The callbacks of a thread run one at a time to their end, in any order, and never leave the CPU while one is
ready (D. Casini, T. Blass, I. Luetkebohle and B. Brandenburg, "Response-Time Analysis of ROS 2 Processing Chains under
Reservation-Based Scheduling", ECRTS 2019). So at the first moment w of a busy window at which the supply covers q jobs
of one callback, and everything that has arrived before w of all other callbacks of the thread and of higher
priorities, its q-th job is done: while it was not, the thread or somebody above it had work, and did nothing else.
Its own later jobs cannot go before it; other callbacks of a chain within the thread can, for later events, which is why
they count as often as these come (the erratum of that paper). Such a callback counts by the arrivals of the first one
of its chain in the thread, which is pending without a gap until its last has ended. The bound is that of a task below
all others of its thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from stealtime import _core
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

Row = tuple[int | None, int, tuple[bool, str] | None]
"""A bound in ns, what a bound is at least, and why there is none: whether it is unbounded, and the words."""

MOST_ROUNDS = 2_000
"""Each round is an analysis of every CPU. Chains that cross CPUs to and fro take some tens; where the jitter grows by a
little in each, there is no end."""

NOT_ANALYSED = "tasks that start each other, or share a thread, have no such analysis"


@dataclass(frozen=True)
class Starts:
    """What was found of each task, by name; times from the event that starts the first task of its chain, in ns."""

    rows: dict[str, Row]
    ready_ns: dict[str, int]
    """Of tasks that others start: when their job is ready at the latest."""


def has_starts(file: TaskFile) -> bool:
    return any(task.after is not None or task.executor is not None for task in file.tasks)


def refuse_starts(file: TaskFile, what: str) -> None:
    """Refuse what is asked of a file, where its tasks start each other.

    Raises:
        UsageError: They do.
    """
    if has_starts(file):
        raise UsageError(f"{what}: {NOT_ANALYSED}", hint="leave it out, or `after` and `executor` of the tasks")


def find_starts(file: TaskFile, terms: Terms, overheads: dict[str, int]) -> Starts:
    """Bound each task's time from the event on, all CPUs together.

    Args:
        file: Its tasks.
        terms: Fixed priorities.
        overheads: In ns.

    Raises:
        UsageError: The policy is EDF, or a task beside them has a reservation.
    """
    if terms.policy == "edf":
        refuse_starts(file, "--policy edf")
    if any(task.reservation is not None for task in file.tasks):
        refuse_starts(file, "a reservation")
    chains = _Chains(file, terms, overheads)
    latest: dict[str, int] = {}
    for _ in range(MOST_ROUNDS):
        try:
            rows = chains.round(latest)
        except ValueError as error:
            return chains.without_end(latest, {}, str(error))
        unbounded = next((name for name, (bound, _, _) in rows.items() if bound is None and chains.starts(name)), None)
        if unbounded is not None:
            return chains.without_end(latest, rows, f"{unbounded} has no bound of its response, and starts others")
        bounds = _bounds(rows)
        if chains.is_settled(bounds, latest):
            return Starts(rows, {name: sum(chains.ready(name, latest)) for name in chains.started})
        latest = bounds
    return chains.without_end(latest, {}, _no_end())


def meets_deadlines(file: TaskFile, terms: Terms, overheads: dict[str, int]) -> bool:
    """Tell whether every task has a bound within its deadline. Ends as soon as one has not: bounds only grow.

    Raises:
        ValueError: It is not known; the message says why.
    """
    chains = _Chains(file, terms, overheads)
    latest: dict[str, int] = {}
    for _ in range(MOST_ROUNDS):
        rows = chains.round(latest)
        for task in file.tasks:
            bound, at_least, reason = rows[task.name]
            is_overloaded, because = reason or (False, "")
            if is_overloaded or max(at_least, bound or 0) > task.deadline_ns:
                return False
            if bound is None:
                raise ValueError(f"{task.name}: {because}")
        bounds = _bounds(rows)
        if chains.is_settled(bounds, latest):
            return True
        latest = bounds
    raise ValueError(_no_end())


def _bounds(rows: dict[str, Row]) -> dict[str, int]:
    return {name: bound for name, (bound, _, _) in rows.items() if bound is not None}


def _no_end() -> str:
    return f"no end was found in {MOST_ROUNDS} rounds over all CPUs"


class _Chains:
    """Who starts whom, and what that makes of the tasks of a CPU."""

    def __init__(self, file: TaskFile, terms: Terms, overheads: dict[str, int]) -> None:
        self._terms, self._overheads = terms, overheads
        self._by_name = {task.name: task for task in file.tasks}
        self._on = {cpu: file.on(cpu) for cpu in file.cpus()}
        self._questions = {cpu: question_of(tasks, terms, overheads) for cpu, tasks in self._on.items()}
        """Of each CPU; the jitters of its tasks are still to be put in. No bound of a response depends on deadlines."""
        self.started = [task.name for task in file.tasks if task.after is not None]
        self._starting = {task.after for task in file.tasks if task.after is not None}
        self._known: dict[int, tuple[list[int], dict[str, Row]]] = {}
        """By CPU: the jitters that its last analysis was of, and what it found. In most rounds most CPUs stay as they
        are."""

    def starts(self, name: str) -> bool:
        return name in self._starting

    def is_settled(self, bounds: dict[str, int], latest: dict[str, int]) -> bool:
        """Tell whether another round would find the same."""
        return all(bounds.get(name) == latest.get(name) for name in self._starting)

    def round(self, latest: dict[str, int]) -> dict[str, Row]:
        """Analyse all CPUs under what is known of the ends of the tasks that start others.

        Raises:
            ValueError: A time is beyond all numbers.
        """
        found: dict[str, Row] = {}
        for cpu, tasks in self._on.items():
            jitters = [self.ready(self._anchor(task).name, latest)[1] for task in tasks]
            known = self._known.get(cpu)
            if known is None or known[0] != jitters:
                known = self._known[cpu] = (jitters, self._rows_of(cpu, jitters))
            found |= known[1]
        return found

    def _rows_of(self, cpu: int, jitters: list[int]) -> dict[str, Row]:
        tasks, asked = self._on[cpu], self._questions[cpu]
        arriving = [
            (cost, period, deadline, jitter, blocked)
            for (cost, period, deadline, _, blocked), jitter in zip(asked["tasks"], jitters, strict=True)
        ]
        question: QuestionDict = {**asked, "tasks": arriving}
        rows = _core.analyze_tasks(question)["responses"] or []
        found: dict[str, Row] = {}
        for number, (task, row) in enumerate(zip(tasks, rows, strict=True)):
            if task.executor is not None:
                # Below all others of its thread.
                mates = [n for n, other in enumerate(tasks) if other.executor == task.executor and n != number]
                first = min([number, *mates])
                # What is below the thread runs after it, but its releases interrupt it.
                below = [n for n in range(first, len(tasks)) if n not in (number, *mates)]
                order = [*range(first), *mates, number, *below]
                last: QuestionDict = {**question, "tasks": [question["tasks"][n] for n in order], "levels": []}
                row = (_core.analyze_tasks(last)["responses"] or [])[first + len(mates)]
            found[task.name] = _later(row, self._earliest_ready(self._anchor(task)))
        return found

    def without_end(self, latest: dict[str, int], rows: dict[str, Row], because: str) -> Starts:
        """Say why there are no bounds: of all tasks on CPUs where another task starts one."""
        affected = {self._by_name[name].cpu for name in self.started}
        unknown: dict[str, Row] = {
            name: row if row[0] is None else (None, row[0], (False, because))
            for name in self._by_name
            for row in (rows.get(name, (None, latest.get(name, 0), (False, because))),)
        }
        return Starts(
            {
                name: rows[name] if name in rows and self._by_name[name].cpu not in affected else row
                for name, row in unknown.items()
            },
            {},
        )

    def ready(self, name: str, latest: dict[str, int]) -> tuple[int, int]:
        """Give when a task's job is ready at the earliest, and by how much later that may be."""
        task = self._by_name[name]
        if task.after is None:
            return 0, task.jitter or 0
        earliest = self._earliest_ready(task)
        return earliest, max(0, latest.get(task.after, 0) + self._sent_ns(task) - earliest)

    def _anchor(self, task: TaskTable) -> TaskTable:
        """Give the first task of its chain within the same thread."""
        while task.after is not None and task.executor is not None:
            before = self._by_name[task.after]
            if before.executor != task.executor:
                break
            task = before
        return task

    def _earliest_ready(self, task: TaskTable) -> int:
        earliest = 0
        while task.after is not None:
            task = self._by_name[task.after]
            earliest += task.least_cost or 0
        return earliest

    def _sent_ns(self, task: TaskTable) -> int:
        """Give how long a start takes to get to another CPU; where interrupts are elsewhere it is charged anyway."""
        if task.after is None or self._by_name[task.after].cpu == task.cpu or self._terms.interrupts != "here":
            return 0
        return self._overheads.get("inter_processor_interrupt", 0)


def _later(row: Row, by_ns: int) -> Row:
    bound, at_least, reason = row
    return (None if bound is None else bound + by_ns, at_least + by_ns, reason)


def segments(tasks: Sequence[TaskTable]) -> list[list[TaskTable]]:
    """Split the tasks of a chain, in the order of the data, where one is not started by the one before it."""
    found = [[task] for task in tasks[:1]]
    for before, task in pairwise(tasks):
        if task.after == before.name:
            found[-1].append(task)
        else:
            found.append([task])
    return found
