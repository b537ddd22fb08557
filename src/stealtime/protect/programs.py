"""Where the Rust side is: the replicator beside the Python interpreter, the preloaded library in this package."""

import os
import sys
from pathlib import Path

from stealtime.lab.libraries import find_library
from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError

REPLICATOR_VARIABLE = "STEALTIME_REPLICATOR"
PAGETRACK_VARIABLE = "STEALTIME_PAGETRACK"
"""Also how the members learn where the library is: they get it in their environment, and their children inherit it."""


def find_replicator() -> Path:
    """Give the path of ``stealtime-replicator``; ``$STEALTIME_REPLICATOR`` names another one.

    Raises:
        StealtimeError: It is not there or not executable.
    """
    chosen = os.environ.get(REPLICATOR_VARIABLE)
    path = Path(chosen) if chosen else Path(sys.executable).parent / "stealtime-replicator"
    if not (path.is_file() and os.access(path, os.X_OK)):
        state = "is not executable" if path.exists() else "does not exist"
        raise StealtimeError(
            f"the replicator {path} {state}", hint=f"correct ${REPLICATOR_VARIABLE}" if chosen else REINSTALL_HINT
        )
    return path.absolute()


def find_pagetrack() -> Path:
    """Give the path of the library that is preloaded into QEMU; ``$STEALTIME_PAGETRACK`` names another one.

    Raises:
        StealtimeError: It is not there.
    """
    chosen = os.environ.get(PAGETRACK_VARIABLE)
    if chosen:
        if not Path(chosen).is_file():
            raise StealtimeError(f"the library {chosen} does not exist", hint=f"correct ${PAGETRACK_VARIABLE}")
        return Path(chosen).absolute()
    return find_library(Path(__file__).parent, "stealtime_pagetrack")


def member_environment() -> dict[str, str]:
    return {**os.environ, PAGETRACK_VARIABLE: str(find_pagetrack())}
