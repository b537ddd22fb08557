"""One CPU in unit steps, with critical sections: the stack resource policy, or the immediate priority ceiling.

Independent of the analysis: it knows jobs, who may run, and nothing of bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Worker:
    """A task of whole units; its section lies between ``begin`` and ``begin + length`` of its execution."""

    cost: int
    period: int
    deadline: int
    resource: str | None = None
    begin: int = 0
    length: int = 0


@dataclass
class _Job:
    task: int
    arrival: int
    done: int = 0
    started: bool = field(default=False)

    def holds(self, worker: Worker) -> bool:
        return worker.resource is not None and worker.begin <= self.done < worker.begin + worker.length and self.started


def longest_responses(workers: Sequence[Worker], phases: Sequence[int], until: int, edf: bool) -> list[int]:
    """Give the longest response of each task; jobs that arrive before ``until`` are run to their end.

    Args:
        workers: The highest priority first; under EDF in any order.
        phases: When the first job of each arrives; the others follow at their period.
        until: In units.
        edf: Whether the earliest deadline goes first, rather than the first task.
    """
    levels = [-(worker.deadline) if edf else -number for number, worker in enumerate(workers)]
    ceilings = {
        worker.resource: max(levels[n] for n, one in enumerate(workers) if one.resource == worker.resource)
        for worker in workers
        if worker.resource is not None
    }
    ready: list[_Job] = []
    longest = [0] * len(workers)
    now = 0
    while now < until or ready:
        if now < until:
            for number, worker in enumerate(workers):
                if now >= phases[number] and (now - phases[number]) % worker.period == 0:
                    ready.append(_Job(number, now))
        if ready:
            job = _next(ready, workers, levels, ceilings, edf)
            job.started = True
            job.done += 1
            if job.done == workers[job.task].cost:
                ready.remove(job)
                longest[job.task] = max(longest[job.task], now + 1 - job.arrival)
        now += 1
        if now > 50 * until:
            raise RuntimeError("the jobs never end")
    return longest


def _next(ready: list[_Job], workers: Sequence[Worker], levels: list[int], ceilings: dict[str, int], edf: bool) -> _Job:
    def urgency(job: _Job) -> tuple[int, int]:
        return (job.arrival + workers[job.task].deadline if edf else job.task, job.arrival)

    for job in sorted(ready, key=urgency):
        held = [
            ceilings[resource]
            for other in ready
            if other is not job and other.holds(workers[other.task]) and (resource := workers[other.task].resource)
        ]
        if job.started or all(levels[job.task] > ceiling for ceiling in held):
            return job
    raise RuntimeError("nobody may run")
