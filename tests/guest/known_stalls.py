"""Stalls of a known length, on several CPUs at the same moments: one disturbance that two tools see at once.

A process on each CPU, of a higher priority than any tool, sleeps until moments of CLOCK_MONOTONIC that all of them
share, and then holds its CPU for a set time. Run as a program (``known_stalls.py CPU LENGTH_NS BEGIN_NS``) it goes on
until it is told to end and writes how long its stalls were, in ns, as JSON.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

PRIORITY = 95
EVERY_NS = 500_000_000
_FARTHEST_NS = 20_000_000_000
"""A test that was killed leaves nobody behind that stalls for ever."""


@dataclass
class Stalls:
    """What was injected, once it is over."""

    longest_ns: list[int] = field(default_factory=list)
    """On each CPU."""


@contextmanager
def known_stalls(cpus: Sequence[int], length_ns: int) -> Iterator[Stalls]:
    """Disturb CPUs while the block runs."""
    stalls = Stalls()
    begin_ns = time.monotonic_ns() + EVERY_NS
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(cpu), str(length_ns), str(begin_ns)], stdout=subprocess.PIPE, text=True
        )
        for cpu in cpus
    ]
    try:
        yield stalls
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        stalls.longest_ns += [max(json.loads(output)) for output in outputs]


def _disturb(cpu: int, length_ns: int, begin_ns: int) -> list[int]:
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked_to_end.append(number))
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    lengths_ns = []
    for next_ns in range(begin_ns, begin_ns + _FARTHEST_NS, EVERY_NS):
        if asked_to_end:
            break
        time.sleep(max(0, next_ns - time.monotonic_ns()) / 1e9)
        start = time.monotonic_ns()
        while time.monotonic_ns() < next_ns + length_ns:
            pass
        lengths_ns.append(time.monotonic_ns() - start)
    return lengths_ns


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_disturb(*map(int, sys.argv[1:]))))
