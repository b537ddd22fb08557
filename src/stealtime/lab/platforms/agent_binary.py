"""Where the agent binary is: it is installed beside the Python interpreter, by the same package."""

import os
import sys
from pathlib import Path

from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError


def find_agent() -> Path:
    """Give the path of the agent binary of this installation.

    ``$STEALTIME_AGENT`` names another one, to try an agent that was built by hand.

    Raises:
        StealtimeError: It is not there or not executable.
    """
    chosen = os.environ.get("STEALTIME_AGENT")
    path = Path(chosen) if chosen else Path(sys.executable).parent / "stealtime-agent"
    if not (path.is_file() and os.access(path, os.X_OK)):
        state = "is not executable" if path.exists() else "does not exist"
        hint = "correct $STEALTIME_AGENT" if chosen else REINSTALL_HINT
        raise StealtimeError(f"the agent {path} {state}", hint=hint)
    return path.absolute()
