"""What QEMU writes down of its devices: when it raised an interrupt.

Debian builds QEMU with the trace backend ``log`` (``docs/devel/tracing.rst`` of QEMU): a line an event, which with
``-msg timestamp=on`` begins ``THREAD@SECONDS.MICROSECONDS:EVENT``, by the wall clock.
"""

import functools
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TRACE_FILE = "emulator.trace"

INTERRUPT_EVENTS = ("apic_deliver_irq", "pic_interrupt", "virtio_notify_irqfd")
"""What stands for a raised interrupt: QEMU's own APIC is given it, its 8259 shows it, or a queue tells KVM's."""
_TIMEOUT_S = 20
_LINE = re.compile(r"^\d+@(\d+)\.(\d{6}):(\w+)", re.MULTILINE)
_READINGS = 9


def trace_arguments(path: Path) -> list[str]:
    """Give QEMU's options for a trace in that file."""
    events = [argument for name in INTERRUPT_EVENTS for argument in ("-trace", name)]
    return ["-msg", "timestamp=on", "-D", str(path), *events]


@functools.cache
def can_trace(program: str) -> bool:
    """Tell whether a QEMU has these events, and writes them where it is told to."""
    try:
        done = subprocess.run(
            [program, "-trace", "help"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return set(INTERRUPT_EVENTS) <= set(done.stdout.split())


@dataclass(frozen=True)
class WallClock:
    """The wall clock at a moment of ``CLOCK_MONOTONIC_RAW``."""

    monotonic_raw_ns: int
    wall_ns: int
    error_ns: int
    """How far the two readings may be apart."""

    @classmethod
    def read(cls) -> "WallClock":
        """Read both, the closest of a few times."""
        return min((cls._once() for _ in range(_READINGS)), key=lambda one: one.error_ns)

    @classmethod
    def _once(cls) -> "WallClock":
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return cls((before + after) // 2, wall, (after - before + 1) // 2)


def interrupts_in(text: str, begin: WallClock, end: WallClock) -> Iterator[int]:
    """Give when interrupts were raised, in ns of ``CLOCK_MONOTONIC_RAW``.

    Args:
        text: What QEMU wrote between ``begin`` and ``end``.
        begin: The clocks before.
        end: The clocks after; between the two the wall clock is taken to go at one rate.
    """
    wall_ns = end.wall_ns - begin.wall_ns
    rate = (end.monotonic_raw_ns - begin.monotonic_raw_ns) / wall_ns if wall_ns > 0 else 1.0
    for at_ns in _raised_at(text):
        yield begin.monotonic_raw_ns + round((at_ns - begin.wall_ns) * rate)


def _raised_at(text: str) -> Iterable[int]:
    for seconds, microseconds, event in _LINE.findall(text):
        if event in INTERRUPT_EVENTS:
            yield int(seconds) * 1_000_000_000 + int(microseconds) * 1000
