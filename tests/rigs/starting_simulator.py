"""Several CPUs from event to event: tasks that start each other, threads of callbacks, what jobs know, and a kernel.

Independent of the analysis: it knows jobs, priorities and who starts whom, and nothing of bounds. A thread takes any of
its ready callbacks next and runs it to its end. Costs, jitter, how late interrupts are and the order of callbacks are
drawn.

The kernel takes a CPU before all jobs. An interrupt releases each job, whether a timer or a job of another thread
starts it, and ticks come; what a callback starts in its own thread is ready at once. A section goes before each job
that begins or goes on, and follows each job's end; jobs wait for it, interrupts do not. A job that goes on after it was
preempted works longer.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Kernel:
    """What it takes, in units."""

    latency: int = 0
    """The most that an interrupt is late."""
    release: int = 0
    """The interrupt that releases one job."""
    section: int = 0
    """Choosing and switching."""
    cache: int = 0
    tick: int = 0
    tick_period: int = 1
    request: int = 0
    """The most that a start takes to get to another CPU."""


NO_KERNEL = Kernel()


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
    preempted: bool = False


@dataclass
class _Cpu:
    """Who has a CPU, and what comes before all jobs."""

    ready: list[_Job] = field(default_factory=list)
    interrupts: list[tuple[int, _Job | None]] = field(default_factory=list)
    """What is left of each, and whom its end releases; the first one goes on."""
    has_cpu: _Job | None = None
    chosen: _Job | None = None
    section_left: int = 0


@dataclass
class Seen:
    """The longest that was seen."""

    responses: list[int]
    """Of each part, from the event on."""
    age: int = 0
    reaction: int = 0


def play(
    parts: Sequence[Part],
    chain: Sequence[int],
    until: int,
    draw: random.Random,
    lazy: bool,
    kernel: Kernel = NO_KERNEL,
) -> Seen:
    """Run until a time; jobs that have not ended by then are not looked at.

    Args:
        parts: The tasks.
        chain: Numbers of parts in the order of the data.
        until: In units.
        draw: For costs, jitter, latencies and the order of callbacks.
        lazy: Whether jobs may take less than their cost, and come less late than they may.
        kernel: What it takes.
    """
    return _Play(parts, chain, draw, lazy, kernel).until(until)


class _Play:
    def __init__(
        self, parts: Sequence[Part], chain: Sequence[int], draw: random.Random, lazy: bool, kernel: Kernel
    ) -> None:
        self._parts, self._chain, self._draw, self._lazy, self._kernel = parts, chain, draw, lazy, kernel
        self._cpus = {cpu: _Cpu() for cpu in sorted({part.cpu for part in parts})}
        self._written: list[int | None] = [None] * len(parts)
        self._coming: dict[int, list[tuple[int, int, _Job | None]]] = {}
        """By time: CPU, cost of an interrupt, whom it releases."""
        self._last_release = [0] * len(parts)
        self._count = 0
        self._reads: list[int] = []
        self._outputs: list[tuple[int, int]] = []
        self._seen = Seen([0] * len(parts))

    def until(self, until: int) -> Seen:
        for number, part in enumerate(self._parts):
            for event in range(part.phase, until, part.period) if part.after is None else ():
                at_most = part.jitter + self._kernel.latency
                late = self._drawn(0, at_most) if self._lazy or event == part.phase else 0
                self._release(number, event, event + late, None)
        for cpu in self._cpus if self._kernel.tick else ():
            first = self._draw.randint(0, self._kernel.tick_period)
            for due in range(first, until, self._kernel.tick_period):
                self._coming.setdefault(due + self._drawn(0, self._kernel.latency), []).append(
                    (cpu, self._kernel.tick, None)
                )
        now = 0
        while now < until:
            for number, cost, job in self._coming.pop(now, ()):
                self._cpus[number].interrupts.append((cost, job))
            left = [work for cpu in self._cpus.values() if (work := self._next_work(cpu, now)) is not None]
            units = min([*left, min(self._coming, default=until) - now])
            now += units
            ended = [job for cpu in self._cpus.values() if (job := self._work(cpu, units)) is not None]
            for job in ended:
                self._end(job, now)
        self._seen.age = max((at - known for at, known in self._outputs), default=0)
        for missed in self._reads:
            answered = next((at for at, known in self._outputs if known > missed), None)
            if answered is not None:
                self._seen.reaction = max(self._seen.reaction, answered - missed)
        return self._seen

    def _drawn(self, least: int, most: int) -> int:
        return self._draw.randint(least, most) if self._lazy else most

    def _release(self, number: int, event: int, fires: int, carried: int | None) -> None:
        part = self._parts[number]
        # The jobs of a task are released in order.
        fires = self._last_release[number] = max(fires, self._last_release[number])
        released = self._job(number, event, carried)
        self._coming.setdefault(fires, []).append((part.cpu, self._kernel.release, released))

    def _job(self, number: int, event: int, carried: int | None) -> _Job:
        part = self._parts[number]
        self._count += 1
        return _Job(number, event, self._drawn(max(1, part.least), part.cost), self._count, carried)

    def _next_work(self, cpu: _Cpu, now: int) -> int | None:
        """Decide who goes on, and give how many units that has left; None if there is nothing to do."""
        while cpu.interrupts and cpu.interrupts[0][0] == 0:
            released = cpu.interrupts.pop(0)[1]
            if released is not None:
                cpu.ready.append(released)
        if cpu.interrupts:
            return cpu.interrupts[0][0]
        if cpu.section_left == 0:
            best = self._best(cpu)
            if best is not cpu.has_cpu:
                self._switch(cpu, best)
        if cpu.section_left > 0:
            return cpu.section_left
        job = cpu.has_cpu
        if job is None:
            return None
        if not job.begun:
            job.begun = True
            self._read(job, now)
        return job.left

    def _work(self, cpu: _Cpu, units: int) -> _Job | None:
        """Let a CPU work; gives the job that ends with it."""
        if cpu.interrupts:
            left, released = cpu.interrupts[0]
            cpu.interrupts[0] = (left - units, released)
        elif cpu.section_left > 0:
            cpu.section_left -= units
            if cpu.section_left == 0:
                cpu.has_cpu = cpu.chosen
        elif (job := cpu.has_cpu) is not None:
            job.left -= units
            if job.left == 0:
                cpu.ready.remove(job)
                cpu.has_cpu = None
                self._switch(cpu, self._best(cpu))
                return job
        return None

    def _switch(self, cpu: _Cpu, best: _Job | None) -> None:
        if cpu.has_cpu is not None:
            cpu.has_cpu.preempted = True
        if best is not None and best.preempted:
            best.preempted = False
            best.left += self._kernel.cache
        cpu.chosen, cpu.section_left = best, self._kernel.section
        if cpu.section_left == 0:
            cpu.has_cpu = best

    def _best(self, cpu: _Cpu) -> _Job | None:
        if not cpu.ready:
            return None
        highest = max(self._parts[job.part].priority for job in cpu.ready)
        urgent = [job for job in cpu.ready if self._parts[job.part].priority == highest]
        # Of a thread, the callback that has begun goes on; so does one that is about to.
        begun = [job for job in urgent if job.begun or job is cpu.has_cpu]
        if begun:
            return begun[0]
        # Of each callback the jobs go in order; which callback is next is anybody's guess.
        first = {job.part: job for job in sorted(urgent, key=lambda job: -job.order)}
        return first[self._draw.choice(sorted(first))]

    def _read(self, job: _Job, now: int) -> None:
        if job.part not in self._chain:
            return
        place = self._chain.index(job.part)
        if place == 0:
            job.known = now
            self._reads.append(now)
        else:
            before = self._chain[place - 1]
            job.known = job.carried if self._parts[job.part].after == before else self._written[before]

    def _end(self, job: _Job, now: int) -> None:
        self._seen.responses[job.part] = max(self._seen.responses[job.part], now - job.event)
        self._written[job.part] = job.known
        if job.part == self._chain[-1] and job.known is not None:
            self._outputs.append((now, job.known))
        for number, part in enumerate(self._parts):
            if part.after != job.part:
                continue
            if part.executor is not None and part.executor == self._parts[job.part].executor:
                self._cpus[part.cpu].ready.append(self._job(number, job.event, job.known))
            else:
                elsewhere = part.cpu != self._parts[job.part].cpu
                late = self._drawn(0, self._kernel.latency + (self._kernel.request if elsewhere else 0))
                self._release(number, job.event, now + late, job.known)
