"""Failures of a machine, reported with its last output."""

import re
from pathlib import Path

from stealtime.vocabulary.errors import StealtimeError

_TAIL_BYTES = 8192
_TAIL_LINES = 25
_CONTROL_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|[\x00-\x08\x0b-\x1f]")
_PANIC = re.compile(r"Kernel panic - not syncing.*")
_STAMP = re.compile(r"^\[\s*\d+\.\d+\]\s*")


class MachineError(StealtimeError):
    """A machine did not come up or went away.

    Args:
        message: One sentence with the value that was wrong.
        hint: What to do.
        serial_tail: The last lines of its console, or nothing.
    """

    def __init__(self, message: str, *, hint: str | None = None, serial_tail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.serial_tail = serial_tail


class CpuGroupError(StealtimeError):
    """A CPU group cannot be made or set as asked."""


def read_tail(log: Path | None) -> str:
    """Give the last lines of a log without terminal control sequences; nothing if there is no log."""
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [_CONTROL_SEQUENCES.sub("", line).rstrip() for line in text.splitlines()]
    return "\n".join([line for line in lines if line][-_TAIL_LINES:])


def log_tail(log: Path | None) -> str:
    """Say what a log ends with: a kernel panic if there is one, else the last line."""
    tail = read_tail(log)
    if not tail:
        return "nothing on its console"
    if panic := _PANIC.search(tail):
        return f"it said: {panic.group(0)}"
    return f"its last line: {_STAMP.sub('', tail.splitlines()[-1])}"
