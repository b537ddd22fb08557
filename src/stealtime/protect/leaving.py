"""Moving all machines of a host to their standbys before it goes down."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from stealtime.protect.members import at_once, is_running, read_status
from stealtime.protect.state import MemberFolder, recorded_process
from stealtime.protect.status import RUNNING_ROLES, MemberStatus, Role

_POLL_S = 0.05


@dataclass
class _Member:
    """One that has a machine here, or has not said yet that it has none."""

    folder: MemberFolder
    role: Role = "starting"
    process: psutil.Process | None = None
    """It was asked to leave. None: it is not known yet which one it is."""

    def tell_to_leave(self) -> None:
        """Terminate it if it has a machine: it hands over, now or as soon as a standby can take it."""
        status = read_status(self.folder)
        self.role = status.role
        if status.role in RUNNING_ROLES:
            self.process = _process_of(self.folder, status)
        if self.process is not None:
            # It may have ended meanwhile; the others are asked all the same.
            with contextlib.suppress(psutil.Error):
                self.process.terminate()

    def stays(self) -> bool:
        return self.role in RUNNING_ROLES and (self.process is None or is_running(self.process))

    def has_left(self) -> bool:
        # One that answers late may turn out to be a standby, which neither stays nor leaves.
        return self.role == "gone" or (self.role in RUNNING_ROLES and not self.stays())


def hand_over_all(folders: Sequence[MemberFolder], within_s: float) -> tuple[list[str], list[str]]:
    """Ask all members that run a machine here to leave, and wait until they have; a host's standbys stay.

    Args:
        folders: Where they live.
        within_s: How long they may take.

    Returns:
        The machines that have left, and those that are still here.
    """
    members = [_Member(folder) for folder in folders]
    at_once(_Member.tell_to_leave, members)
    members = [member for member in members if member.role in RUNNING_ROLES]
    deadline = time.monotonic() + within_s
    while any(member.stays() for member in members) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        unknown = [member for member in members if member.process is None and member.stays()]
        at_once(_Member.tell_to_leave, unknown)
    # Each is looked at once, so that it is in one list.
    staying = [member for member in members if member.stays()]
    left = [member for member in members if member not in staying and member.has_left()]
    return [member.folder.vm for member in left], [member.folder.vm for member in staying]


def _process_of(folder: MemberFolder, status: MemberStatus) -> psutil.Process | None:
    """Give a member's process: that it does not answer does not mean that it has ended, and its pid may come again."""
    if status.pid is None:
        # One that a daemon started is noted nowhere: it has to answer.
        return recorded_process(folder.pid_file)
    try:
        return psutil.Process(status.pid)
    except psutil.NoSuchProcess:
        return None
