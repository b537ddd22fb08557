"""An independent observer of when a probe is held back, from outside the probe: it uses neither samples nor traces.

Natively it is an ordinary thread on the measured CPU. The probe is a real-time one, so that the thread runs exactly
while the probe is held back; it notes its own stretches of running. In front of a guest it asks the host's kernel, once
in a millisecond, whether any thread of the guest's CPU runs: a guest whose probe is held back is idle, once its kernel
has halted it.

Run as a program (``outside_observer.py on-cpu`` or ``outside_observer.py guest MARK PROGRAM``) it writes its intervals
as JSON when it is asked to end: ``[[begin, end], ...]`` in ns of CLOCK_MONOTONIC_RAW.
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
from pathlib import Path

AWAY_NS = 500_000
"""A thread that misses no more than this of the time that went by was running, but for ticks and interrupts."""
LOOK_EVERY_S = 0.001
NICE = -20
"""Ordinary threads share a pause; this one gets nearly all of it."""
JOIN_NS = 10_000_000
"""A tick wakes an idle guest for a moment, and beside others it waits for the CPU then: it stood still all the same. A
probe that is not held back runs for hundreds of ms."""
FOUND_AGO_S = 0.05
"""Threads that were looked for longer ago may not be all of them. A shorter time would fill a pause with looks."""
PAUSE_MIN_NS = 40_000_000
"""A pause of the limit is 50 ms long; nothing else lets the probe stand still for so long at once."""

_QEMU = "qemu"
_QEMU_CPU = "CPU "
"""How QEMU names its virtual CPUs' threads, with -name debug-threads=on."""

Stretch = tuple[int, int]


@dataclass
class OutsideObserver:
    """What was seen, once it has ended."""

    stretches: list[Stretch] = field(default_factory=list)

    def within_ns(self, begin_ns: int, end_ns: int) -> int:
        """Give for how long the probe was held back within a stretch of time."""
        return sum(max(0, min(end, end_ns) - max(begin, begin_ns)) for begin, end in self.stretches)

    def pauses(self, begin_ns: int, end_ns: int) -> list[Stretch]:
        """Give the stretches in which it was surely held back, whole ones within a stretch of time."""
        return [
            (begin, end)
            for begin, end in self.stretches
            if begin_ns < begin and end < end_ns and end - begin >= PAUSE_MIN_NS
        ]


@contextmanager
def observing(*arguments: str, cpu: int) -> Iterator[OutsideObserver]:
    """Observe while the block runs."""
    seen = OutsideObserver()
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        os.sched_setaffinity(process.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        yield seen
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
        seen.stretches += [(begin, end) for begin, end in json.loads(output)]


class _Asked:
    """Whether the program was told to end."""

    def __init__(self) -> None:
        self.to_end = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, _signal: int, _frame: object) -> None:
        self.to_end = True


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _run_on_cpu(asked: _Asked) -> list[Stretch]:
    """Note when this thread ran.

    What looks like a pause of its own is held against its CPU time, which it had up to ``last`` as long as it ran: it
    also ran while the host's own host had the CPU, or while its memory came back, some ms at the begin of a stretch.
    """
    stretches = []
    begin = since = last = _now_ns()
    since_cpu_ns = time.thread_time_ns()
    while not asked.to_end:
        now = _now_ns()
        if now - last > AWAY_NS:
            cpu_ns = time.thread_time_ns()
            ran_ns = max(0, cpu_ns - since_cpu_ns - (last - since))
            if now - last - ran_ns > AWAY_NS:
                stretches.append((begin, last))
                begin = now - ran_ns
            since, since_cpu_ns = now, cpu_ns
        last = now
    return [*stretches, (begin, last)]


def _watch_guest(asked: _Asked, mark: str, program: str) -> list[Stretch]:
    """Note when no thread of a guest's CPU ran."""
    stretches: list[Stretch] = []
    begin: int | None = None
    last = at = _now_ns()
    states: list[Path] = []
    found_at = 0.0
    may_begin_more = not program.startswith(_QEMU)
    while not asked.to_end:
        if time.monotonic() - found_at > 1.0:
            # Threads come and go; a look at all processes takes some ms.
            states, found_at = _states_of(mark, program), time.monotonic()
        at = _now_ns()
        is_idle = _is_idle(states)
        if is_idle and begin is None and may_begin_more and time.monotonic() - found_at > FOUND_AGO_S:
            # A process of User-Mode Linux that began since the last look may be the one that runs. QEMU's threads of
            # its CPUs are there from the beginning, and a look at all processes beside a trial took up to 20 ms.
            states, found_at = _states_of(mark, program), time.monotonic()
            is_idle = _is_idle(states)
        if is_idle and begin is None:
            begin = at
        elif not is_idle and begin is not None:
            stretches.append((begin, last))
            begin = None
        last = at
        time.sleep(LOOK_EVERY_S)
    return _joined(stretches if begin is None else [*stretches, (begin, at)])


def _joined(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Join the stretches that are nearer to each other than ``JOIN_NS``."""
    joined: list[Stretch] = []
    for begin, end in stretches:
        if joined and begin - joined[-1][1] < JOIN_NS:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


def _states_of(mark: str, program: str) -> list[Path]:
    """Give where the kernel tells of each thread of a guest's CPU."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"STEALTIME_RUN={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if program not in (folder / "exe").readlink().name:
                continue
            tasks = list((folder / "task").iterdir())
            if program.startswith(_QEMU):
                tasks = [task for task in tasks if (task / "comm").read_text().startswith(_QEMU_CPU)]
        except OSError:
            continue  # it ended meanwhile
        found += [task / "stat" for task in tasks]
    return found


def _is_idle(states: Sequence[Path]) -> bool:
    return bool(states) and not any(_runs(state) for state in states)


def _runs(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False  # it ended meanwhile


def _main(arguments: Sequence[str]) -> None:
    asked = _Asked()
    match arguments:
        case ["on-cpu"]:
            stretches = _run_on_cpu(asked)
        case ["guest", mark, program]:
            stretches = _watch_guest(asked, mark, program)
        case _:
            raise SystemExit(__doc__)
    sys.stdout.write(json.dumps(stretches))


if __name__ == "__main__":
    _main(sys.argv[1:])
