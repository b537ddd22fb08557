"""One CPU in unit steps: threads of SCHED_DEADLINE (a hard constant bandwidth server each) above fixed priorities.

The rules of the kernel, as scheduler/sched-deadline.rst has them: at a wake-up after the deadline, or with more runtime
than the bandwidth allows until then, a new deadline and a whole runtime; without runtime nothing until the next period.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Thread:
    """A task; with a server it runs under SCHED_DEADLINE."""

    cost: int
    arrivals: tuple[int, ...]
    server: tuple[int, int] | None = None
    """Runtime and period, which is also the deadline."""


@dataclass
class _Server:
    runtime: int
    period: int
    left: int = 0
    deadline: int = 0
    waits_until: int = 0


def longest_responses(threads: Sequence[Thread], until: int) -> list[int]:
    """Give the longest response of each thread; the highest priority stands first, servers anywhere.

    Args:
        threads: With all arrivals in order; a job waits for the one before it.
        until: After so many units it is given up.
    """
    servers = [None if one.server is None else _Server(*one.server) for one in threads]
    queues: list[list[list[int]]] = [[] for _ in threads]
    longest = [0] * len(threads)
    for now in range(until):
        for number, thread in enumerate(threads):
            wakes = thread.arrivals.count(now)
            server = servers[number]
            if wakes and not queues[number] and server is not None and now >= server.waits_until:
                over = server.left * server.period > (server.deadline - now) * server.runtime
                if now >= server.deadline or over:
                    server.left, server.deadline = server.runtime, now + server.period
            queues[number] += [[now, thread.cost] for _ in range(wakes)]
            if server is not None and server.left == 0 and queues[number] and now >= server.waits_until:
                server.left, server.deadline = server.runtime, server.deadline + server.period
        chosen = _chosen(servers, queues, now)
        if chosen is None:
            continue
        queues[chosen][0][1] -= 1
        if (server := servers[chosen]) is not None:
            server.left -= 1
            if server.left == 0:
                server.waits_until = server.deadline
        if queues[chosen][0][1] == 0:
            arrival, _ = queues[chosen].pop(0)
            longest[chosen] = max(longest[chosen], now + 1 - arrival)
    if any(queues):
        raise RuntimeError("jobs are left")
    return longest


def _chosen(servers: Sequence[_Server | None], queues: Sequence[list[list[int]]], now: int) -> int | None:
    reserved = [
        (server.deadline, number)
        for number, server in enumerate(servers)
        if server is not None and queues[number] and server.left > 0 and now >= server.waits_until
    ]
    if reserved:
        return min(reserved)[1]
    return next((n for n, queue in enumerate(queues) if servers[n] is None and queue), None)
