"""Throttling of a CPU group by its quota: ``cpu.stat`` of cgroup v1 and v2, as readings."""

from dataclasses import dataclass
from typing import Literal

from stealtime.vocabulary.readings import Absent, Reading, Value


@dataclass(frozen=True)
class Throttling:
    """What the kernel counted for a group's quota (``cpu.stat``), since the group was made or between two readings."""

    periods: Reading
    """Periods in which the group wanted to run."""
    throttled_periods: Reading
    throttled_ns: Reading
    """How long its threads were held back, of all CPUs together."""


def parse_throttling(text: str, version: Literal[1, 2]) -> Throttling:
    """Read ``cpu.stat``: v1 counts ``throttled_time`` in ns, v2 ``throttled_usec`` in us."""
    counts = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)

    def reading(key: str, unit_ns: int = 1) -> Reading:
        number = counts.get(key, "").strip()
        return Value(value=int(number) * unit_ns) if number.isdigit() else Absent(absent=f"cpu.stat has no {key}")

    time_key, unit_ns = ("throttled_time", 1) if version == 1 else ("throttled_usec", 1000)
    return Throttling(reading("nr_periods"), reading("nr_throttled"), reading(time_key, unit_ns))


def throttling_between(before: Throttling, after: Throttling) -> Throttling:
    """Give what was counted from one reading to the next; a counter that went backwards is absent ("reset")."""
    return Throttling(
        _difference(before.periods, after.periods),
        _difference(before.throttled_periods, after.throttled_periods),
        _difference(before.throttled_ns, after.throttled_ns),
    )


def _difference(before: Reading, after: Reading) -> Reading:
    for reading in (before, after):
        if isinstance(reading, Absent):
            return reading
    if not (isinstance(before, Value) and isinstance(after, Value)):
        raise TypeError("a reading is a value or absent")
    if not (isinstance(before.value, int) and isinstance(after.value, int)):
        return Absent(absent=f"{before.value!r} and {after.value!r} are not counts")
    return Value(value=after.value - before.value) if after.value >= before.value else Absent(absent="reset")
