"""A real-time priority for who speaks: phones are machines of their own, and what they send late is not the server's.

In the laboratory both ends of all calls share the CPUs with hosts, guests and whatever else runs. To send a packet
takes some microseconds, too few for the server to miss them.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PRIORITY = 10
"""Of SCHED_FIFO: above everything that is not real-time, and below what this project's probes have."""


@contextmanager
def urgent() -> Iterator[bool]:
    """Give the calling thread, and those that it starts meanwhile, that priority; tells whether it was granted."""
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))


def priority_granted() -> int:
    """Give the priority that our programs may take; 0 where they may take none."""
    granted: list[bool] = []

    def ask() -> None:
        with urgent() as is_granted:
            granted.append(is_granted)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    return PRIORITY if granted == [True] else 0
