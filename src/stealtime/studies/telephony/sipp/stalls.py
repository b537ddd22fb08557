"""When SIPp stood still, by its own watchdog: a timer that is due at once again, and complains of each time it is late.

A complaint is a line of SIPp's error log, with the same stamps as its log of actions and how long ago the timer ran
before. Whatever keeps SIPp from running is in it: other work, a quota, a stop, a call of its own that waits.
"""

import re
from dataclasses import dataclass

_EVERY_MS = 100
_LATE_FROM_MS = 200
_UNLIMITED = str(10**9)
"""SIPp would else end itself after so many complaints."""
WATCHDOG = (
    *("-watchdog_interval", str(_EVERY_MS), "-watchdog_minor_threshold", str(_LATE_FROM_MS)),
    *("-watchdog_minor_maxtriggers", _UNLIMITED, "-watchdog_major_maxtriggers", _UNLIMITED),
)
"""Options of SIPp: it complains where it stood still for 200 ms or more, and may complain from 100 ms on."""

_LINE = re.compile(
    r"\t(?P<seconds>\d{9,11})\.(?P<micro>\d{6}): Overload warning: the \w+ watchdog timer \d+ms has been tripped "
    r"\((?P<after_ms>\d+)\)"
)


@dataclass(frozen=True, order=True)
class Window:
    """A while, on the monotonic clock."""

    begin_ns: int
    end_ns: int


def parse_stalls(errors: str, real_minus_monotonic_ns: int) -> tuple[Window, ...]:
    """Give when SIPp stood still, from its error log."""
    found = []
    for match in _LINE.finditer(errors):
        end_ns = (int(match["seconds"]) * 1_000_000 + int(match["micro"])) * 1_000 - real_minus_monotonic_ns
        found.append(Window(end_ns - int(match["after_ms"]) * 1_000_000, end_ns))
    return tuple(found)
