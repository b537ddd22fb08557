"""Samples at absolute times, and what was used between each and the one before."""

import time
from collections.abc import Callable, Iterator

from stealtime.capacity.collector import Collector
from stealtime.capacity.use import Use, between


def uses(
    collector: Collector,
    interval_s: float,
    *,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Use]:
    """Give what was used, each time an interval is over, without end.

    A reading that comes late (a busy host) is not made up for: the next is at the next whole interval.

    Args:
        collector: Reads the samples.
        interval_s: From one to the next.
        now_s: The clock.
        sleep: Waits.
    """
    before = collector.sample()
    start_s = now_s()
    turn = 0
    while True:
        turn = max(turn + 1, int((now_s() - start_s) / interval_s) + 1)
        sleep(max(0.0, start_s + turn * interval_s - now_s()))
        after = collector.sample()
        yield between(before, after)
        before = after
