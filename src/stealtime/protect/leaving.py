"""All machines of a host handed over, before it goes down."""

import os
import signal
import time

from stealtime.protect.members import read_status
from stealtime.protect.state import State
from stealtime.protect.status import RUNNING_ROLES

_POLL_S = 0.05


def hand_over_all(state: State, within_s: float) -> tuple[list[str], list[str]]:
    """Ask all members that run a machine here to leave, and wait until they have; a host's standbys stay.

    Args:
        state: Where they live.
        within_s: How long they may take.

    Returns:
        The machines that have left, and those that are still here.
    """
    asked = [(folder, status) for folder in state.members() if (status := read_status(folder)).role in RUNNING_ROLES]
    for _, status in asked:
        if status.pid is not None:
            # It hands over when it is terminated, now or as soon as a standby can take the machine.
            os.kill(status.pid, signal.SIGTERM)
    deadline = time.monotonic() + within_s

    def stays(pid: int | None) -> bool:
        return any(read_status(folder).pid == pid for folder, status in asked if status.pid == pid)

    while any(stays(status.pid) for _, status in asked) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    staying = [status.vm for _, status in asked if stays(status.pid)]
    return [status.vm for _, status in asked if status.vm not in staying], staying
