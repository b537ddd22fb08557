"""A task set as a TOML file: who runs where, how often, how long."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from stealtime.schedulability.longest import AnalysedNs
from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.toml_table import Table

LOWEST_PRIORITY, HIGHEST_PRIORITY = 1, 99
"""Of SCHED_FIFO, sched(7)."""

_HINT = "`stealtime schema tasks` prints what a task file may hold"


class TaskTable(Table):
    """One sporadic task."""

    name: Annotated[str, Field(min_length=1)]
    """Unlike all others."""
    cost: AnalysedNs
    """The most that one job executes."""
    period: AnalysedNs
    """The least time between two arrivals."""
    deadline: AnalysedNs | None = None
    """From a job's arrival to when it must have finished; the period if left out."""
    jitter: AnalysedNs | None = None
    """The most that a job is released after its arrival; none if left out."""
    blocking: AnalysedNs | None = None
    """The most that a job waits for a resource that lower priorities hold; none if left out."""
    priority: Annotated[int, Field(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)] | None = None
    """As of SCHED_FIFO: a higher number goes first, and of equal ones the job that came first. For all tasks or for
    none; without, shorter deadlines go first."""
    cpu: Annotated[int, Field(ge=0)] = 0
    """Where it runs; it never migrates."""

    @property
    def deadline_ns(self) -> int:
        return self.period if self.deadline is None else self.deadline

    @property
    def utilization(self) -> Fraction:
        return Fraction(self.cost, self.period)


class GeneratedTable(Table):
    """How ``stealtime sched generate`` drew the set. It is kept with it and changes nothing."""

    version: str
    """Of stealtime."""
    law: str
    """Of utilizations."""
    total: float | None = None
    """The utilization asked for, where the law is of a fixed total."""
    periods: str
    """The law of periods."""
    deadlines: str
    """The law of deadlines."""
    seed: int
    """Of the random numbers."""
    cpus: int
    """That tasks were assigned to."""
    tasks_asked: int
    """Before the rule for over-utilized sets."""
    over_utilized: str
    """The rule: keep, redraw, scale or shed."""
    cap: float
    """What the rule keeps the utilization of all CPUs to."""
    attempts: int
    """Sets drawn."""
    drawn_utilization: float
    """Of the last one."""
    utilization: float
    """Of the set as it is."""
    fit: str
    """How tasks were assigned to CPUs."""


class TaskFile(Table):
    """``TASKS.toml`` of ``stealtime sched analyze``."""

    tasks: Annotated[list[TaskTable], Field(min_length=1)]
    """All tasks, in any order."""
    generated: GeneratedTable | None = None
    """Only in generated files."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _no_duplicates("tasks have the name", [task.name for task in self.tasks])
        with_priority = [task for task in self.tasks if task.priority is not None]
        if with_priority and len(with_priority) < len(self.tasks):
            without = next(task.name for task in self.tasks if task.priority is None)
            raise ValueError(f"the task {without!r} has no priority and {with_priority[0].name!r} has one")
        return self

    def cpus(self) -> list[int]:
        return sorted({task.cpu for task in self.tasks})

    def on(self, cpu: int) -> list[TaskTable]:
        """Give a CPU's tasks, the highest priority first.

        Without priorities they are ordered by deadline (Leung and Whitehead, Performance Evaluation 2(4), 1982), and
        in the order of the file where deadlines are equal.
        """
        here = [task for task in self.tasks if task.cpu == cpu]
        return sorted(here, key=lambda task: task.deadline_ns if task.priority is None else -task.priority)

    def ordered_for(self, cpu: int, policy: str) -> list[TaskTable]:
        """Give a CPU's tasks as the analysis of a policy takes them: under EDF priorities do not count."""
        here = self.on(cpu)
        return sorted(here, key=lambda task: task.deadline_ns) if policy == "edf" else here


def read_task_file(path: Path) -> TaskFile:
    """Read and check a task file.

    Raises:
        UsageError: It is no TOML, or describes no task set that can be.
    """
    text = read_own_text(path, "task file")
    document = toml_errors.parse(text, str(path))
    try:
        return TaskFile.model_validate(document)
    except ValidationError as error:
        raise toml_errors.explain(error, document, text, str(path), TaskFile, _HINT) from None


def write_task_file(file: TaskFile) -> str:
    """Give the text of a task file, which :func:`read_task_file` reads back as it was."""
    lines: list[str] = []
    if file.generated is not None:
        lines += ["[generated]", *(_line(key, value) for key, value in file.generated if value is not None), ""]
    for task in file.tasks:
        written = task.model_dump(mode="json", exclude_defaults=True)
        lines += ["[[tasks]]", *(_line(key, value) for key, value in written.items()), ""]
    return "\n".join(lines)


def _line(key: str, value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{key} = "{escaped}"'
    return f"{key} = {value!r}"


def _no_duplicates(what: str, values: list[str]) -> None:
    value, count = Counter(values).most_common(1)[0] if values else (None, 0)
    if count > 1:
        raise ValueError(f"{count} {what} {value!r}")
