"""How long a job waits for critical sections of others: computed from who uses which resource for how long.

One critical section of one task at most, before the job begins, under the immediate priority ceiling
(``PTHREAD_PRIO_PROTECT``) and the stack resource policy; under the original priority ceiling protocol the same time,
while it runs. L. Sha, R. Rajkumar and J. P. Lehoczky, IEEE Transactions on Computers 39(9), 1990; T. P. Baker,
Real-Time Systems 3(1), 1991; under EDF S. Baruah, RTSS 2006.
"""

from collections.abc import Mapping, Sequence

from stealtime.schedulability.task_file import TaskTable

LATE = ("event_latency", "release", "inter_processor_interrupt")
"""Overheads that may make a job late, as jitter does."""


def blocking_times(tasks: Sequence[TaskTable]) -> list[int]:
    """Give the blocking of each task under fixed priorities, in ns.

    That of the file, and the longest critical section of a task of a lower priority in a resource whose ceiling, the
    highest priority of its users, is at least the task's own. Of tasks of equal priority the ceiling of each counts for
    all: a section at that ceiling is not preempted by any of them.

    Args:
        tasks: The highest priority first.
    """
    first_below = [
        rank + 1
        if task.priority is None
        else next((at for at, other in enumerate(tasks) if at > rank and other.priority != task.priority), len(tasks))
        for rank, task in enumerate(tasks)
    ]
    return [
        (task.blocking or 0) + section_of_lower(tasks[below:], tasks[:below])
        for task, below in zip(tasks, first_below, strict=True)
    ]


def section_of_lower(lower: Sequence[TaskTable], others: Sequence[TaskTable]) -> int:
    """Give the longest critical section of ``lower`` in a resource that one of ``others`` uses, too, in ns."""
    shared = {name for task in others for name in task.resources}
    return max((length for task in lower for name, length in task.resources.items() if name in shared), default=0)


def levels_of_windows(tasks: Sequence[TaskTable], overheads: Mapping[str, int]) -> list[tuple[int, int]]:
    """Give the blocking under EDF by length of the window: from which on, and how long, in ns.

    In a window of length L a section of a task with D > L, in a resource that a task uses whose job may be due in L;
    and the longest ``blocking`` of a task whose job may be due in L, of whom that is unknown: in all longer windows.
    A job is due in a window that is shorter than D by all that makes it late; that of the latest counts for all.

    Args:
        tasks: In any order.
        overheads: In ns; those of :data:`LATE` count.
    """
    if not any(task.resources or task.blocking for task in tasks):
        return []
    late = max(task.jitter or 0 for task in tasks) + sum(overheads.get(name, 0) for name in LATE)
    begins = [max(0, task.deadline_ns - late) for task in tasks]
    points = sorted({0, *begins, *(task.deadline_ns for task in tasks)})
    levels: list[tuple[int, int]] = []
    for point in points:
        blocking = 0
        for number, blocker in enumerate(tasks):
            if blocker.deadline_ns > point:
                due = [one for other, one in enumerate(tasks) if other != number and begins[other] <= point]
                blocking = max(blocking, section_of_lower([blocker], due))
        blocking += max(
            (task.blocking or 0 for task, begin in zip(tasks, begins, strict=True) if begin <= point), default=0
        )
        if not levels or levels[-1][1] != blocking:
            levels.append((point, blocking))
    return levels
