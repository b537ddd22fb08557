"""Errors that a user sees: one sentence with the value, then a hint, and an exit code."""

from enum import IntEnum

REINSTALL_HINT = "install stealtime again: pip with its wheel, or `make setup` in its source tree"
"""Where a part of this installation is missing or of another version."""
WHAT_WORKS_HINT = "; `stealtime doctor` lists what works without"
AS_ROOT_HINT = f"run the same command as root, or with sudo{WHAT_WORKS_HINT}"
"""Where a right is missing."""


class ExitCode(IntEnum):
    """The exit codes of every command."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    THRESHOLD = 3
    NOT_JUDGED = 4


def weightiest(*codes: ExitCode) -> ExitCode:
    """Give the exit code that counts of several.

    A threshold that was exceeded is a verdict, and stays one whatever fails after it. A failure comes before what is
    not judged: who accepts the latter must still learn that something was not written.
    """
    return min(codes, key=_BY_WEIGHT.index)


_BY_WEIGHT = (ExitCode.THRESHOLD, ExitCode.USAGE, ExitCode.FAILED, ExitCode.NOT_JUDGED, ExitCode.FINE)


class StealtimeError(Exception):
    """An error that is shown to the user without a traceback.

    Args:
        message: One sentence that holds the value that was wrong.
        hint: What to do about it.
        exit_code: What the command ends with.
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class UsageError(StealtimeError):
    """The user asked for something that cannot be: a wrong option, file, key or name."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.USAGE)
