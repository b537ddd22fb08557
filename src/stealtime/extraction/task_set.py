"""The tasks that were found as a task file, which ``stealtime sched analyze`` reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from stealtime.extraction.document import TaskDocument
from stealtime.report import notation
from stealtime.schedulability.task_file import TaskFile, TaskTable, write_task_file

_DEADLINE = "SCHED_DEADLINE"


@dataclass(frozen=True)
class Charged:
    """What an analysis charges besides, and so need not be in the tasks."""

    event_latency_ns: int = 0
    """A release that was later than that is late by the rest."""
    with_interrupts: bool = False
    """Interrupts over a job are charged by nobody else: what they took of one at most is cost."""


NOTHING = Charged()


def task_file_text(tasks: Sequence[TaskDocument], program: str, watched_ns: int) -> tuple[str | None, str | None]:
    """Give the TOML of the tasks that are not excluded, or why there is none."""
    chosen = [task for task in tasks if task.excluded is None]
    file, because = task_set(chosen)
    if file is None:
        return None, f"there is no task file: {because}"
    lines = [
        f"# By `stealtime sched extract`, {watched_ns / 1e9:.1f} s of {' '.join(program.split())}",
        "# Costs are the most that was seen, and no bound. A trace tells no deadlines: each is one period here.",
    ]
    for task in chosen:
        lines += [f"# {task.name}: {one}" for one in _remarks(task)]
    return "\n".join([*lines, "", write_task_file(file)]), None


def task_set(tasks: Sequence[TaskDocument], charged: Charged = NOTHING) -> tuple[TaskFile | None, str | None]:
    """Make a task set, or say why these are none.

    Args:
        tasks: Those that were found.
        charged: What the analysis charges besides.
    """
    if not tasks:
        return None, "no real-time thread began a job while it was watched"
    if {task.policy for task in tasks} > {_DEADLINE}:
        return None, "some threads are under SCHED_DEADLINE and some under fixed priorities"
    try:
        return TaskFile(tasks=[_table(task, charged) for task in tasks]), None
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        return None, said


def _table(task: TaskDocument, charged: Charged) -> TaskTable:
    arrival = task.arrival
    period_ns = max(1, (arrival.period_ns or 0) - arrival.period_error_ns)
    late_ns = max(arrival.jitter_ns, max(0, (task.lateness_ns or 0) - charged.event_latency_ns))
    interrupts_ns = task.cost.interrupts_ns if charged.with_interrupts else 0
    deadline_ns = task.deadline_ns
    if deadline_ns is None and arrival.kind == "sporadic":
        # One period after the job came, however early the model has it arrive.
        deadline_ns = period_ns + arrival.jitter_ns
    return TaskTable.model_construct(
        name=task.name,
        # A wait is taken for work: jobs of lower priority then wait for it, too, which is safe (Chen et al., "Many
        # suspensions, many problems", Real-Time Systems 55, 2019).
        cost=max(1, task.cost.with_calls_ns + interrupts_ns + task.suspended_ns),
        period=period_ns,
        deadline=None if deadline_ns == period_ns else deadline_ns,
        jitter=late_ns or None,
        blocking=None,
        priority=task.priority,
        cpu=task.cpus[0] if task.cpus else 0,
    )


def _remarks(task: TaskDocument) -> Iterator[str]:
    arrival = task.arrival
    known = {
        "programmed": "its timers are set on this grid",
        "observed": "its wake-ups lie on this grid",
        "sporadic": "sporadic: the period is the mean, the jitter covers the closest arrivals seen",
        "too few": "",
    }[arrival.kind]
    yield f"{task.cost.jobs} jobs; {known} ({arrival.arrivals} arrivals)"
    yield (
        f"cost: {notation.duration(task.cost.own_ns)} of its own, {notation.duration(task.cost.with_calls_ns)} with "
        "the calls in which it waits"
    )
    yield from task.notes
