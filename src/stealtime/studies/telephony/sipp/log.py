"""SIPp's log of actions, a line a message: ``sent USER CALL|STAMP`` and ``answered USER CALL|STAMP``.

The stamp is what SIPp puts for ``[timestamp]``: date and time with microseconds, and the same in seconds since 1970.
"""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^(?P<kind>[a-z]+) (?P<user>\S+) (?P<status>\S*)\|.*?(?P<seconds>\d{9,11})\.(?P<micro>\d{6})\s*$")


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message, or what became of it."""

    kind: str
    """The first word of its line."""
    user: str
    status: str
    """What else the scenario tells of it."""
    at_ns: int
    """On the monotonic clock."""


def parse_log(text: str, real_minus_monotonic_ns: int) -> list[LoggedMessage]:
    """Read the lines of our scenarios; other lines are left out."""
    return [
        LoggedMessage(
            match["kind"],
            match["user"],
            match["status"],
            (int(match["seconds"]) * 1_000_000 + int(match["micro"])) * 1_000 - real_minus_monotonic_ns,
        )
        for match in map(_LINE.match, text.splitlines())
        if match is not None
    ]
