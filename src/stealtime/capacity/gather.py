"""Samples at absolute times, and what was used between each and the one before."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from stealtime.capacity.collector import Collector
from stealtime.capacity.use import Use, between


class Turns:
    """Absolute times, an interval apart. One that has passed already (a busy host) is left out, not made up for."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._start_s = time.monotonic()
        self._turn = 0

    def until_next_s(self) -> float:
        """Give how long it is to the next one."""
        now_s = time.monotonic()
        self._turn = max(self._turn + 1, int((now_s - self._start_s) / self._interval_s) + 1)
        return max(0.0, self._start_s + self._turn * self._interval_s - now_s)


def uses(collector: Collector, interval_s: float) -> Iterator[Use]:
    """Give what was used, each time an interval is over, without end.

    Args:
        collector: Reads the samples.
        interval_s: From one to the next.
    """
    before = collector.sample()
    turns = Turns(interval_s)
    while True:
        time.sleep(turns.until_next_s())
        after = collector.sample()
        yield between(before, after)
        before = after


async def uses_beside(collector: Collector, interval_s: float) -> AsyncIterator[Use]:
    """Do as :func:`uses`, and let others run meanwhile."""
    before = collector.sample()
    turns = Turns(interval_s)
    while True:
        await asyncio.sleep(turns.until_next_s())
        after = collector.sample()
        yield between(before, after)
        before = after
