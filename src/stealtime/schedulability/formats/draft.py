"""A task set as it is read, before it is checked: exact numbers, made whole nanoseconds on the safe side."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from stealtime.schedulability.document import Policy
from stealtime.schedulability.task_file import HIGHEST_PRIORITY, LOWEST_PRIORITY, TaskFile, put_apart
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, PARSED, format_duration

FormatName = Literal["toml", "sheet", "lime", "rt-app", "schedcat", "cheddar", "simso"]

HINT = "docs/task-formats.md tells what is read of each format"
_NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,2})?")
"""Longer ones are no times, and would be slow to reckon with."""


@dataclass
class TaskDraft:
    """One task, in ns; rounded towards the longer response when it is made."""

    name: str
    cost_ns: Fraction
    period_ns: Fraction
    deadline_ns: Fraction | None = None
    jitter_ns: Fraction = Fraction(0)
    blocking_ns: Fraction = Fraction(0)
    priority: int | None = None
    cpu: int = 0
    resources: dict[str, Fraction] = field(default_factory=dict)
    """The longest critical section of each, in ns."""
    reservation_ns: tuple[Fraction, Fraction, Fraction] | None = None
    """Runtime, period and deadline of SCHED_DEADLINE."""


@dataclass
class Draft:
    """What a reader has found in a file."""

    path: Path
    tasks: list[TaskDraft] = field(default_factory=list)
    policy: Policy | None = None
    """What the file itself names."""
    remarks: list[str] = field(default_factory=list)
    """What it says that tasks cannot express, a sentence each."""

    def refuse(self, what: str, hint: str = HINT) -> UsageError:
        return UsageError(f"{self.path}: {what}", hint=hint)

    def remark(self, sentence: str) -> None:
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def number(self, text: str | None, what: str) -> Fraction:
        """Read a number that is not negative; what was left out is an error.

        Raises:
            UsageError: It is none; the message has ``what``.
        """
        if text is None or not text.strip():
            raise self.refuse(f"{what} is missing")
        if not _NUMBER.fullmatch(text.strip()):
            raise self.refuse(f"{what} is {text.strip()[:60]!r}, which is no number")
        value = Fraction(text.strip())
        if value < 0:
            raise self.refuse(f"{what} is {text.strip()}, less than 0")
        return value

    def whole(self, text: str | None, what: str) -> int:
        """Read a whole number, of any sign.

        Raises:
            UsageError: It is none; the message has ``what``.
        """
        if text is None or not re.fullmatch(r"[+-]?\d{1,18}(\.0*)?", text.strip()):
            raise self.refuse(f"{what} is {text!r}, which is no whole number")
        return int(Fraction(text.strip()))

    def order_by(self, key: Callable[[TaskDraft], Fraction]) -> None:
        """Give priorities by rank, those with the least of ``key`` first, where deadlines would order otherwise."""

        def deadline(task: TaskDraft) -> Fraction:
            return task.period_ns if task.deadline_ns is None else task.deadline_ns

        for cpu in {task.cpu for task in self.tasks}:
            here = [task for task in self.tasks if task.cpu == cpu]
            if sorted(here, key=key) != sorted(here, key=deadline):
                break
        else:
            return
        for cpu in {task.cpu for task in self.tasks}:
            here = sorted((task for task in self.tasks if task.cpu == cpu), key=key)
            if len(here) > HIGHEST_PRIORITY:
                raise self.refuse(
                    f"CPU {cpu} has {len(here)} tasks by rate, and SCHED_FIFO has {HIGHEST_PRIORITY} priorities"
                )
            for rank, task in enumerate(here):
                task.priority = HIGHEST_PRIORITY - rank

    def rank_priorities(self) -> None:
        """Put priorities beyond those of SCHED_FIFO into 1 to 99, in their order."""
        given = sorted({task.priority for task in self.tasks if task.priority is not None}, reverse=True)
        if not given or (given[-1] >= LOWEST_PRIORITY and given[0] <= HIGHEST_PRIORITY):
            return
        if len(given) > HIGHEST_PRIORITY:
            raise self.refuse(f"there are {len(given)} priorities, and SCHED_FIFO has {HIGHEST_PRIORITY}")
        rank = {priority: HIGHEST_PRIORITY - number for number, priority in enumerate(given)}
        for task in self.tasks:
            if task.priority is not None:
                task.priority = rank[task.priority]
        self.remark(
            f"Priorities from {given[-1]} to {given[0]} are shown as {rank[given[-1]]} to {rank[given[0]]}, in their "
            "order."
        )

    def name_twins(self) -> None:
        """Tell tasks of one name apart by a number."""
        seen: dict[str, int] = {}
        taken = {task.name for task in self.tasks}
        for task in self.tasks:
            number = seen.get(task.name, 0)
            seen[task.name] = number + 1
            if number:
                new = next(
                    f"{task.name} {n}"
                    for n in range(number + 1, len(self.tasks) + 2)
                    if f"{task.name} {n}" not in taken
                )
                taken.add(new)
                self.remark(f"There are several tasks {task.name!r}; they have numbers here.")
                task.name = new

    def finish(self, apart: bool = False) -> TaskFile:
        """Make the task file; ``apart`` as of :func:`~stealtime.schedulability.task_file.read_task_file`.

        Raises:
            UsageError: There are no tasks, or no set can be so.
        """
        if not self.tasks:
            raise self.refuse("there is no task in it")
        self.rank_priorities()
        tables = [_table(self, task) for task in self.tasks]
        if apart:
            put_apart(tables)
        return make_task_file(tables, self.path)


def make_task_file(tasks: Sequence[dict[str, Any]], path: Path) -> TaskFile:
    """Check tasks whose times are in ns.

    Raises:
        UsageError: No set can be so; the message is that of the task file, with the name of the task.
    """
    try:
        return TaskFile.model_validate({"tasks": list(tasks)}, context=PARSED)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        at = first["loc"]
        if len(at) >= 3 and isinstance(at[1], int):
            message = f"the task {tasks[at[1]]['name']!r}: {at[2]}: {message}"
        raise UsageError(f"{path}: {message}", hint=HINT) from None


def unit_remark(unit: str, shown: str) -> str:
    return f"The file has no unit of time: 1 is taken as 1 {unit} ({shown})."


def unit_ns(unit: str) -> int:
    """Give a unit's length.

    Raises:
        UsageError: There is no such unit.
    """
    if unit not in NANOSECONDS:
        raise UsageError(f"--unit: {unit!r} is no unit of time", hint=f"known: {', '.join(NANOSECONDS)}")
    return NANOSECONDS[unit]


def names_of(names: Iterable[str]) -> str:
    """Write some names, not all of many: ``a, b, c and 5 more``."""
    all_names = list(names)
    shown = ", ".join(all_names[:4])
    return shown if len(all_names) <= 4 else f"{shown} and {len(all_names) - 4} more"


def _table(draft: Draft, task: TaskDraft) -> dict[str, Any]:
    cost, period = math.ceil(task.cost_ns), math.floor(task.period_ns)
    deadline = None if task.deadline_ns is None else math.floor(task.deadline_ns)
    for what, time in (("cost", cost), ("period", period), ("deadline", deadline)):
        if time is not None and time <= 0:
            raise draft.refuse(f"the task {task.name!r} has a {what} of {format_duration(time)}")
    table = {
        "name": task.name,
        "cost": cost,
        "period": period,
        "deadline": None if deadline == period else deadline,
        "jitter": math.ceil(task.jitter_ns) or None,
        "blocking": math.ceil(task.blocking_ns) or None,
        "priority": task.priority,
        "cpu": task.cpu,
        "resources": {name: math.ceil(length) for name, length in task.resources.items() if length > 0},
    }
    if task.reservation_ns is not None:
        # Less runtime, later and more seldom, is on the safe side for the task; the kernel has whole ns anyway.
        runtime, period, deadline = map(math.floor, task.reservation_ns)
        if not 0 < runtime <= deadline <= period:
            raise draft.refuse(
                f"the task {task.name!r} has a runtime of {format_duration(runtime)} within "
                f"{format_duration(deadline)} of every {format_duration(period)}: SCHED_DEADLINE refuses that"
            )
        table["reservation"] = "/".join(map(format_duration, (runtime, period, deadline)))
    return {key: value for key, value in table.items() if value is not None}
