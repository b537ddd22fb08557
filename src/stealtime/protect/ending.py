"""Why a member or a daemon ended: in its own words, if it had any left.

The last that they write is ``error: ...``, then perhaps ``hint: ...``; before it come events, a JSON object a line. The
log holds earlier lives too, whose last lines are followed by the events of the next one.
"""

import json
import os
from itertools import takewhile
from pathlib import Path

from stealtime.lab.platforms.failure import log_tail, read_tail
from stealtime.vocabulary.errors import StealtimeError

_ERROR, _HINT, _EVENT = "error: ", "hint: ", "{"

_LEFT = ("left", "fenced")
"""Of events, those that a member ends with (``crates/replicator/src/events.rs``)."""


def ending_error(what: str, log: Path, where: str | None = None) -> StealtimeError:
    """Give the error for a process that has ended.

    Args:
        what: What ended, as the beginning of a sentence: ``the member of 'phone' ended``.
        log: Where it wrote.
        where: Names that place for the hint; None: its path, which must outlive us.
    """
    reason, hint = parse_log_tail(read_tail(log).splitlines())
    if reason is None and log.exists() and log.stat().st_size == 0 and os.statvfs(log.parent).f_bavail == 0:
        return StealtimeError(f"{what}, and {log.parent} has no room for a word of why", hint="make room there")
    if reason is None:
        return StealtimeError(f"{what}; {log_tail(log)}", hint=where or f"see {log}")
    rest = where or (f"see {log}" if hint is None else f"its log: {log}")
    return StealtimeError(f"{what}: {reason}", hint=rest if hint is None else f"{hint}; {rest}")


def last_reason(events: Path) -> str | None:
    """Give what a member noted last of why it left or ended; None: that is not what it noted last."""
    lines = read_tail(events).splitlines()
    try:
        last = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    if not isinstance(last, dict) or last.get("event") not in _LEFT or "reason" not in last:
        return None
    return str(last["reason"])


def parse_log_tail(lines: list[str]) -> tuple[str | None, str | None]:
    """Find the error and the hint with which a log ends; what an error quotes may have several lines."""
    last = list(takewhile(lambda line: not line.startswith(_EVENT), reversed(lines)))[::-1]
    beginnings = [number for number, line in enumerate(last) if line.startswith(_ERROR)]
    if not beginnings:
        return None, None
    error = last[beginnings[-1] :]
    hint = None
    if error[-1].startswith(_HINT):
        hint = error.pop().removeprefix(_HINT)
    return " ".join(error).removeprefix(_ERROR), hint
