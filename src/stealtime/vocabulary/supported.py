"""Where stealtime runs at all: told in one sentence when it is built or started elsewhere, before anything else fails.

It stands on nothing but Python, since ``setup.py`` asks it before anything is installed.
"""

import platform
import sys

SYSTEM = "linux"
MACHINE = "x86_64"


def what_is_missing() -> str | None:
    """Say in one sentence what this machine lacks for stealtime; None if it lacks nothing."""
    machine = platform.machine() or "an unknown processor"
    if sys.platform != SYSTEM:
        return (
            f"stealtime runs on Linux on x86-64, and this is {_system()} on {machine}: "
            "it boots, places and traces machines with the Linux kernel's own interfaces"
        )
    if machine != MACHINE:
        return (
            f"stealtime runs on Linux on x86-64, and this is Linux on {machine}: "
            "its agent counts time with the time-stamp counter of x86-64, and the guest kernels are for x86-64"
        )
    return None


HINT = "use a Linux machine with an x86-64 processor; the page that `stealtime report` writes opens in any browser"


def _system() -> str:
    return {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
