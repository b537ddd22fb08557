"""Samples at absolute times, and what was used between each and the one before."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator

from stealtime.capacity.collector import Collector
from stealtime.capacity.use import Use, between

_OBJECTS_BETWEEN_LOOKS = 50_000


def spare_the_garbage_collector() -> None:
    """Let Python look for circles of objects seldom, and never among what is loaded already.

    A sample is thousands of small objects without a circle in them. Looking for some in a minute of samples and in
    every imported module took as long as reading the counters (``benchmarks/capacity_collector.py``).
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, 20, 100)


class Turns:
    """Absolute times, an interval apart. One that has passed already (a busy host) is left out, not made up for."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._start_s = time.monotonic()
        self._turn = 0

    def until_next_s(self) -> float:
        now_s = time.monotonic()
        self._turn = max(self._turn + 1, int((now_s - self._start_s) / self._interval_s) + 1)
        return max(0.0, self._start_s + self._turn * self._interval_s - now_s)


def uses(collector: Collector, interval_s: float) -> Iterator[Use]:
    """Give what was used, each time an interval is over, without end."""
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
