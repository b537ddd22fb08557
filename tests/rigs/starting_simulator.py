"""Several CPUs in unit steps: tasks that start each other, threads of callbacks, and what each job knows of events.

Independent of the analysis: it knows jobs, priorities and who starts whom, and nothing of bounds. A thread takes any of
its ready callbacks next and runs it to its end. Costs, jitter and the order of callbacks are drawn.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A task or callback, in units."""

    cost: int
    period: int
    least: int
    priority: int
    cpu: int
    jitter: int = 0
    phase: int = 0
    after: int | None = None
    """The number of the one that starts it."""
    executor: int | None = None


@dataclass
class _Job:
    part: int
    event: int
    """When the event that started its chain was to come."""
    left: int
    order: int
    carried: int | None
    """What the job that started it knew."""
    known: int | None = None
    begun: bool = False


@dataclass
class Seen:
    """The longest that was seen."""

    responses: list[int]
    """Of each part, from the event on."""
    age: int = 0
    reaction: int = 0


def play(parts: Sequence[Part], chain: Sequence[int], until: int, draw: random.Random, lazy: bool) -> Seen:
    """Run until a time; jobs that have not ended by then are not looked at.

    Args:
        parts: The tasks.
        chain: Numbers of parts in the order of the data.
        until: In units.
        draw: For costs, jitter and the order of callbacks.
        lazy: Whether jobs may take less than their cost, and come less late than their jitter.
    """
    seen = Seen([0] * len(parts))
    written: list[int | None] = [None] * len(parts)
    ready: list[_Job] = []
    coming: dict[int, list[tuple[int, int]]] = {}
    for number, part in enumerate(parts):
        released = 0
        for event in range(part.phase, until, part.period) if part.after is None else ():
            late = draw.randint(0, part.jitter) if lazy else part.jitter if event == part.phase else 0
            released = max(released, event + late)
            coming.setdefault(released, []).append((number, event))
    count = 0
    reads: list[int] = []
    outputs: list[tuple[int, int]] = []

    def start(number: int, event: int, carried: int | None) -> None:
        nonlocal count
        cost = draw.randint(max(1, parts[number].least), parts[number].cost) if lazy else parts[number].cost
        ready.append(_Job(number, event, cost, count, carried))
        count += 1

    cpus = sorted({part.cpu for part in parts})
    for now in range(until):
        for number, event in coming.get(now, ()):
            start(number, event, None)
        ended = []
        for cpu in cpus:
            job = _next([one for one in ready if parts[one.part].cpu == cpu], parts, draw)
            if job is None:
                continue
            if not job.begun:
                job.begun = True
                if job.part in chain:
                    place = chain.index(job.part)
                    if place == 0:
                        job.known = now
                        reads.append(now)
                    else:
                        before = chain[place - 1]
                        job.known = job.carried if parts[job.part].after == before else written[before]
            job.left -= 1
            if job.left == 0:
                ended.append(job)
        for job in ended:
            ready.remove(job)
            seen.responses[job.part] = max(seen.responses[job.part], now + 1 - job.event)
            written[job.part] = job.known
            if job.part == chain[-1] and job.known is not None:
                outputs.append((now + 1, job.known))
            for number, part in enumerate(parts):
                if part.after == job.part:
                    start(number, job.event, job.known)
    seen.age = max((at - known for at, known in outputs), default=0)
    for missed in reads:
        answered = next((at for at, known in outputs if known > missed), None)
        if answered is not None:
            seen.reaction = max(seen.reaction, answered - missed)
    return seen


def _next(ready: list[_Job], parts: Sequence[Part], draw: random.Random) -> _Job | None:
    if not ready:
        return None
    highest = max(parts[job.part].priority for job in ready)
    urgent = [job for job in ready if parts[job.part].priority == highest]
    begun = [job for job in urgent if job.begun]
    if begun:
        return begun[0]
    # Of each callback the jobs go in order; which callback is next is anybody's guess.
    first = {job.part: job for job in sorted(urgent, key=lambda job: -job.order)}
    return first[draw.choice(sorted(first))]
