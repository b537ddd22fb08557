"""A task set as a TOML file: who runs where, how often, how long."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from stealtime.schedulability.longest import AnalysedNs
from stealtime.schedulability.reservation import Reservation, ReservationText, read_reservation
from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.quantities import format_duration
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
    resources: dict[str, AnalysedNs] = Field(default_factory=dict)
    """The longest critical section in each resource that it shares with others, such as ``{ buffer = "200us" }``: for
    the priority ceiling protocols and the stack resource policy, from which blocking is computed."""
    after: str | None = None
    """The task whose job's end starts this one's, on any CPU; each of its jobs starts one. The period is that of the
    first task of the chain, from whose event on the deadline counts."""
    executor: Annotated[str, Field(min_length=1)] | None = None
    """The thread that runs this callback, as an executor of ROS 2: the callbacks of a thread run to their end one at a
    time, in any order."""
    least_cost: AnalysedNs | None = None
    """The least that one job executes; nothing if left out. What a task starts is ready no earlier."""
    reservation: ReservationText | None = None
    """Of SCHED_DEADLINE, such as ``4ms/10ms`` or ``4ms/10ms/8ms`` (runtime, period, deadline): the task then runs above
    all fixed priorities of its CPU."""

    @property
    def server(self) -> Reservation | None:
        return None if self.reservation is None else read_reservation(self.reservation)

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


class ChainTable(Table):
    """Tasks that hand data over: each reads what the one before it has written last."""

    name: Annotated[str, Field(min_length=1)]
    """Unlike all others."""
    tasks: Annotated[list[str], Field(min_length=1)]
    """Their names, in the order of the data; on any CPUs."""
    max_age: AnalysedNs | None = None
    """How old data may be when the last task has written; anything if left out."""
    max_reaction: AnalysedNs | None = None
    """How long it may take from an event until the last task has written; anything if left out."""


class TaskFile(Table):
    """``TASKS.toml`` of ``stealtime sched analyze``."""

    tasks: Annotated[list[TaskTable], Field(min_length=1)]
    """All tasks, in any order."""
    chains: list[ChainTable] = Field(default_factory=list)
    """Whose end-to-end times are wanted."""
    generated: GeneratedTable | None = None
    """Only in generated files."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _no_duplicates("tasks have the name", [task.name for task in self.tasks])
        _no_duplicates("chains have the name", [chain.name for chain in self.chains])
        names = {task.name for task in self.tasks}
        for chain in self.chains:
            _no_duplicates(f"parts of the chain {chain.name!r} are the task", chain.tasks)
            for name in chain.tasks:
                if name not in names:
                    raise ValueError(f"the chain {chain.name!r} has {name!r}, which is no task")
        for task in self.tasks:
            if task.reservation is not None and (task.priority is not None or task.resources or task.blocking):
                raise ValueError(
                    f"the task {task.name!r} has a reservation, which goes above all priorities and shares no resources"
                )
        with_priority = [task for task in self.tasks if task.priority is not None]
        fixed = [task for task in self.tasks if task.reservation is None]
        if with_priority and len(with_priority) < len(fixed):
            without = next(task.name for task in fixed if task.priority is None)
            raise ValueError(f"the task {without!r} has no priority and {with_priority[0].name!r} has one")
        for task in self.tasks:
            for name, length in task.resources.items():
                if length > task.cost:
                    raise ValueError(
                        f"the task {task.name!r} holds {name!r} for {format_duration(length)}, longer than its cost of "
                        f"{format_duration(task.cost)}"
                    )
        check_starts(self.tasks)
        for name in {name for task in self.tasks for name in task.resources}:
            users = [task for task in self.tasks if name in task.resources]
            if len({task.cpu for task in users}) > 1:
                first, other = users[0], next(task for task in users if task.cpu != users[0].cpu)
                raise ValueError(
                    f"the resource {name!r} is shared by {first.name!r} of CPU {first.cpu} and {other.name!r} of CPU "
                    f"{other.cpu}: blocking across CPUs is not analysed"
                )
        return self

    def cpus(self) -> list[int]:
        return sorted({task.cpu for task in self.tasks})

    def on(self, cpu: int) -> list[TaskTable]:
        """Give a CPU's tasks, the highest priority first; those with a reservation stand before all.

        Without priorities they are ordered by deadline (Leung and Whitehead, Performance Evaluation 2(4), 1982), and
        in the order of the file where deadlines are equal.
        """
        here = [task for task in self.tasks if task.cpu == cpu]
        reserved = [task for task in here if task.reservation is not None]
        fixed = [task for task in here if task.reservation is None]
        # The callbacks of a thread stand together, where the most urgent of them would.
        urgency = {
            task.name: min(
                one.deadline_ns for one in fixed if one is task or (one.executor and task.executor == one.executor)
            )
            for task in fixed
        }
        place = {task.name: number for number, task in enumerate(fixed)}
        first = {task.executor: number for number, task in reversed(list(enumerate(fixed))) if task.executor}
        by_priority = sorted(
            fixed,
            key=lambda task: (
                urgency[task.name] if task.priority is None else -task.priority,
                place[task.name] if task.executor is None else first[task.executor],
            ),
        )
        return [*sorted(reserved, key=lambda task: task.deadline_ns), *by_priority]

    def ordered_for(self, cpu: int, policy: str) -> list[TaskTable]:
        """Give a CPU's tasks as the analysis of a policy takes them: under EDF priorities do not count."""
        here = self.on(cpu)
        return sorted(here, key=lambda task: task.deadline_ns) if policy == "edf" else here


def check_starts(tasks: Sequence[TaskTable]) -> None:
    """Refuse tasks that cannot start each other, or share a thread, as they say.

    Raises:
        ValueError: The message says which.
    """
    by_name = {task.name: task for task in tasks}
    for task in tasks:
        if task.least_cost is not None and task.least_cost > task.cost:
            raise ValueError(f"the task {task.name!r} has a least_cost above its cost")
        if (task.after or task.executor) and task.reservation is not None:
            raise ValueError(
                f"the task {task.name!r} has a reservation, and is started by another task or shares a thread"
            )
        if task.after is None:
            continue
        if (before := by_name.get(task.after)) is None:
            raise ValueError(f"the task {task.name!r} comes after {task.after!r}, which is no task")
        if task.period != before.period:
            raise ValueError(
                f"the task {task.name!r} comes after {before.name!r} every {format_duration(before.period)}, and has a "
                f"period of {format_duration(task.period)}"
            )
        if task.jitter:
            raise ValueError(f"the task {task.name!r} has jitter of its own, and comes after {before.name!r}")
        seen = {task.name}
        while before.after is not None and before.after in by_name:
            if before.name in seen:
                raise ValueError(f"the task {task.name!r} comes after itself")
            seen.add(before.name)
            before = by_name[before.after]
        if before.name in seen:
            raise ValueError(f"the task {task.name!r} comes after itself")
    for executor in {task.executor for task in tasks if task.executor is not None}:
        callbacks = [task for task in tasks if task.executor == executor]
        first = callbacks[0]
        for task in callbacks:
            if (task.cpu, task.priority) != (first.cpu, first.priority):
                raise ValueError(
                    f"{task.name!r} and {first.name!r} of the thread {executor!r} differ in CPU or priority"
                )
            if task.resources or task.blocking:
                raise ValueError(f"the callback {task.name!r} of the thread {executor!r} has critical sections")
        for task in tasks:
            if task.executor != executor and task.cpu == first.cpu and task.priority == first.priority is not None:
                raise ValueError(f"the task {task.name!r} has the priority of the thread {executor!r}")


def put_apart(tasks: object) -> None:
    """Give each task of a file that was not checked yet a CPU of its own, those that share anything the same one.

    What they share is a resource or a thread. Where tasks are to be placed, the CPUs of the file do not count, and all
    on one may be too many.
    """
    if not isinstance(tasks, list):
        return
    cpus: dict[str, int] = {}
    for number, task in enumerate(tasks):
        if isinstance(task, dict):
            shared = task.get("resources")
            names = list(shared) if isinstance(shared, dict) else []
            names += [f"thread {task['executor']}"] if "executor" in task else []
            known = {cpus[name] for name in names if name in cpus}
            task["cpu"] = min(known, default=number)
            for other in (one for one in tasks[:number] if isinstance(one, dict) and one.get("cpu") in known):
                other["cpu"] = task["cpu"]
            cpus = {name: task["cpu"] if cpu in known else cpu for name, cpu in cpus.items()}
            cpus.update(dict.fromkeys(names, task["cpu"]))


def read_task_file(path: Path, apart: bool = False) -> TaskFile:
    """Read and check a task file.

    Args:
        path: Of the file.
        apart: Whether its CPUs do not count (:func:`put_apart`).

    Raises:
        UsageError: It is no TOML, or describes no task set that can be.
    """
    text = read_own_text(path, "task file")
    document = toml_errors.parse(text, str(path))
    if apart:
        put_apart(document.get("tasks"))
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
    for chain in file.chains:
        written = chain.model_dump(mode="json", exclude_defaults=True)
        lines += ["[[chains]]", *(_line(key, value) for key, value in written.items()), ""]
    return "\n".join(lines)


def _key(name: str) -> str:
    if name and all(one.isascii() and (one.isalnum() or one in "_-") for one in name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _line(key: str, value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{key} = "{escaped}"'
    if isinstance(value, list):
        return f"{key} = [{', '.join(_line('', one).removeprefix(' = ') for one in value)}]"
    if isinstance(value, dict):
        return f"{key} = {{ {', '.join(_line(_key(name), one) for name, one in value.items())} }}"
    return f"{key} = {value!r}"


def _no_duplicates(what: str, values: list[str]) -> None:
    value, count = Counter(values).most_common(1)[0] if values else (None, 0)
    if count > 1:
        raise ValueError(f"{count} {what} {value!r}")
