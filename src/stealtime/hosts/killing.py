"""SIGKILL or SIGSTOP for a member whose machine is protected at that very moment.

A machine that has just lost its standby, as on a crowded host, does not survive its host, and rightly. Who only asks
before the fault may strike such a one. So the member is stopped first: then its own record does not change any more.
"""

import json
import os
import signal
import time
from collections.abc import Callable

import psutil

from stealtime.protect.state import MemberFolder

_STOPS_WITHIN_S = 10.0
_POLL_S = 0.001


def kill_protected(
    process: psutil.Process, is_protected: Callable[[], bool], await_protected: Callable[[], None]
) -> int:
    """Kill a process when it is protected, as often as that takes to try.

    Args:
        process: The member.
        is_protected: Tells so by what the stopped member has written.
        await_protected: Waits until the member says so; may raise.

    Returns:
        When it was struck, in nanoseconds of the monotonic clock.
    """
    return _strike(process, is_protected, await_protected, process.kill)


def freeze_protected(
    process: psutil.Process, is_protected: Callable[[], bool], await_protected: Callable[[], None]
) -> int:
    """Stop a process and its children when it is protected, as :func:`kill_protected` kills it; they stay stopped.

    Its connections stay open and say nothing more, as those of a host that is cut off.
    """

    def stop_children() -> None:
        for child in process.children(recursive=True):
            child.suspend()

    return _strike(process, is_protected, await_protected, stop_children)


def _strike(
    process: psutil.Process,
    is_protected: Callable[[], bool],
    await_protected: Callable[[], None],
    strike: Callable[[], None],
) -> int:
    while True:
        await_protected()
        os.kill(process.pid, signal.SIGSTOP)
        is_struck = False
        try:
            _await_stopped(process)
            if is_protected():
                struck_ns = time.monotonic_ns()
                strike()
                is_struck = True
                return struck_ns
        finally:
            if not is_struck:
                os.kill(process.pid, signal.SIGCONT)


def was_protected(folder: MemberFolder, pid: int) -> bool:
    """Tell whether a member wrote last that its guest is protected.

    A standby writes no states; until when it protected the guest is known to the active member alone.
    """
    return last_state(folder, pid) in ("Protected", None)


def last_state(folder: MemberFolder, pid: int) -> str | None:
    """Give the state that a member wrote last, as ``Protected``; None if it wrote none."""
    state = None
    for path in (folder.events.with_name(f"{folder.events.name}.1"), folder.events):
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            continue
        for event in map(json.loads, lines):
            if event["event"] == "state" and event["pid"] == pid:
                state = str(event["state"])
    return state


def _await_stopped(process: psutil.Process) -> None:
    deadline = time.monotonic() + _STOPS_WITHIN_S
    while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
