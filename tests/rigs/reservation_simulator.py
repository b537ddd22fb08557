"""One CPU in unit steps: threads of SCHED_DEADLINE (a hard constant bandwidth server each) above fixed priorities.

The rules of the kernel, as scheduler/sched-deadline.rst has them: at a wake-up after the deadline, or with more runtime
than the bandwidth allows until then, a new deadline and a whole runtime; without runtime nothing until the next period.
Where the deadline is shorter than the period, a wake-up with too much runtime leaves as much as the bandwidth allows,
and one after the deadline waits for the next period.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Thread:
    """A task; with a server it runs under SCHED_DEADLINE."""

    cost: int
    arrivals: tuple[int, ...]
    server: tuple[int, int, int] | None = None
    """Runtime, period and deadline."""


@dataclass
class _Server:
    runtime: int
    period: int
    relative: int
    """The deadline of a period, from its begin on."""
    left: int = 0
    deadline: int = 0
    waits_until: int = 0

    @property
    def next_period(self) -> int:
        return self.deadline - self.relative + self.period

    def wake(self, now: int) -> None:
        over = self.left * self.relative > (self.deadline - now) * self.runtime
        if self.relative < self.period and self.deadline > 0:
            if now < self.deadline:
                self.left = (self.deadline - now) * self.runtime // self.relative if over else self.left
            elif now < self.next_period:
                self.left = 0
            if self.left == 0:
                self.waits_until = max(self.waits_until, self.next_period)
                return
        if now >= self.deadline or (over and self.relative == self.period):
            self.left, self.deadline = self.runtime, now + self.relative

    def replenish(self, now: int) -> None:
        if self.left == 0 and now >= self.waits_until:
            self.left, self.deadline = self.runtime, max(now, self.next_period) + self.relative


@dataclass(frozen=True)
class Simulated:
    longest_responses: list[int]
    ran: list[int | None]
    """In each unit of time the number of a thread."""


def simulate(threads: Sequence[Thread], until: int) -> Simulated:
    """Let threads run; the highest priority stands first, servers anywhere.

    Args:
        threads: With all arrivals in order; a job waits for the one before it.
        until: After so many units it is given up.
    """
    servers = [None if one.server is None else _Server(*one.server) for one in threads]
    queues: list[list[list[int]]] = [[] for _ in threads]
    longest = [0] * len(threads)
    ran: list[int | None] = []
    for now in range(until):
        for number, thread in enumerate(threads):
            wakes = thread.arrivals.count(now)
            server = servers[number]
            if wakes and not queues[number] and server is not None and now >= server.waits_until:
                server.wake(now)
            queues[number] += [[now, thread.cost] for _ in range(wakes)]
            if server is not None and queues[number]:
                server.replenish(now)
        chosen = _chosen(servers, queues, now)
        ran.append(chosen)
        if chosen is None:
            continue
        queues[chosen][0][1] -= 1
        if (server := servers[chosen]) is not None:
            server.left -= 1
            if server.left == 0:
                server.waits_until = server.next_period
        if queues[chosen][0][1] == 0:
            arrival, _ = queues[chosen].pop(0)
            longest[chosen] = max(longest[chosen], now + 1 - arrival)
    if any(queues):
        raise RuntimeError("jobs are left")
    return Simulated(longest, ran)


def _chosen(servers: Sequence[_Server | None], queues: Sequence[list[list[int]]], now: int) -> int | None:
    reserved = [
        (server.deadline, number)
        for number, server in enumerate(servers)
        if server is not None and queues[number] and server.left > 0 and now >= server.waits_until
    ]
    if reserved:
        return min(reserved)[1]
    return next((n for n, queue in enumerate(queues) if servers[n] is None and queue), None)
