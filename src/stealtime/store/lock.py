"""One process at a time writes a run: a lock that goes away with that process, however it ends."""

import fcntl
import os
from pathlib import Path

from stealtime.vocabulary.errors import UsageError

_LOCK = ".lock"


def take_lock(folder: Path) -> int:
    """Give a file descriptor that holds the lock of the run in ``folder`` until it is closed.

    Raises:
        UsageError: Another process has it.
        OSError: The folder cannot be written.
    """
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise _written(folder) from None
    return lock


def refuse_if_written(folder: Path) -> None:
    """See that no living process writes the run in ``folder``.

    Raises:
        UsageError: One does.
    """
    if is_being_written(folder):
        raise _written(folder)


def is_being_written(folder: Path) -> bool:
    """Tell whether a living process writes the run in ``folder``; who may only read it can tell as well."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Whoever writes has it for itself.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _written(folder: Path) -> UsageError:
    return UsageError(
        f"the run {folder.name} is being written by another stealtime", hint="wait until that one has ended"
    )
