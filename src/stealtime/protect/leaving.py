"""Moving all machines of a host to their standbys before it goes down.

The host is marked before any of them moves (``HostFolder.leave``): from then on it lets in no standby, and takes no
machine of another host that is left at the same time.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from stealtime.protect.ending import last_reason
from stealtime.protect.members import at_once, is_running, read_status
from stealtime.protect.state import HostFolder, MemberFolder, State, recorded_process
from stealtime.protect.status import RUNNING_ROLES, MemberStatus, Role
from stealtime.vocabulary.errors import UsageError

_POLL_S = 0.05
_LOOK_AT_STANDBYS_EVERY_S = 0.5


@dataclass
class _Member:
    """One that has a machine here, or has not said yet that it has none, or stands by and may come to have one."""

    folder: MemberFolder
    role: Role = "starting"
    process: psutil.Process | None = None
    """It was asked to leave. None: it is not known yet which one it is."""

    def tell_to_leave(self) -> None:
        """Terminate it if it has a machine: it hands over, now or as soon as a standby can take it."""
        self._heed(read_status(self.folder))

    def tell_to_leave_if_it_took_over(self) -> None:
        """The same for one that stood by: if it does not answer it is not taken for one that has the machine."""
        status = read_status(self.folder)
        if status.pid is not None or status.role == "gone":
            self._heed(status)

    def _heed(self, status: MemberStatus) -> None:
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
        return self.role == "gone" or (self.role in RUNNING_ROLES and not self.stays())


def hosts_to_leave(state: State, name: str | None) -> list[HostFolder]:
    """Give the hosts of this machine that are meant: all of them go down with it, unless one is named.

    Raises:
        UsageError: There is none of this name.
    """
    hosts = state.hosts()
    chosen = [host for host in hosts if name in (None, host.host)]
    if name is not None and not chosen:
        known = ", ".join(host.host for host in hosts)
        raise UsageError(
            f"there is no host {name!r} on this machine", hint=f"known here: {known}" if known else "there is none here"
        )
    return chosen


def hand_over_all(folders: Sequence[MemberFolder], within_s: float) -> tuple[list[MemberFolder], list[MemberFolder]]:
    """Ask all members that run a machine here to leave, and wait until they have; a host's standbys stay.

    A standby that takes its machine over meanwhile, as its other host has died or is left, too, is asked then.

    Returns:
        The members whose machines are not here any more, and those that are still here.
    """
    found = [_Member(folder) for folder in folders]
    at_once(_Member.tell_to_leave, found)
    members = [member for member in found if member.role in RUNNING_ROLES]
    standbys = [member for member in found if member.role == "standby"]

    def look_at_standbys() -> None:
        at_once(_Member.tell_to_leave_if_it_took_over, standbys)
        members.extend(member for member in standbys if member.role in RUNNING_ROLES)
        standbys[:] = [member for member in standbys if member.role == "standby"]

    deadline, look_at = time.monotonic() + within_s, time.monotonic()
    while True:
        all_left = not any(member.stays() for member in members)
        if all_left or time.monotonic() >= look_at:
            look_at_standbys()
            look_at = time.monotonic() + _LOOK_AT_STANDBYS_EVERY_S
        if time.monotonic() >= deadline or not any(member.stays() for member in members):
            break
        time.sleep(_POLL_S)
        at_once(_Member.tell_to_leave, [one for one in members if one.process is None and one.stays()])
        standbys += [member for member in members if member.role == "standby"]
        members[:] = [member for member in members if member.role != "standby"]
    # Each is looked at once, so that it is in one list.
    staying = [member for member in members if member.stays()]
    left = [member for member in members if member not in staying and member.has_left()]
    return [member.folder for member in left], [member.folder for member in staying]


def what_came_of(folder: MemberFolder) -> str:
    """Say of a machine that is not here any more that it has left, if its member noted so: one that crashed did not."""
    if last_reason(folder.events) is not None:
        return f"{folder.vm} has left"
    return (
        f"{folder.vm} is not here any more, and its member noted no reason: see {folder.log}, and "
        f"`stealtime protect status {folder.vm}` on its other hosts"
    )


def _process_of(folder: MemberFolder, status: MemberStatus) -> psutil.Process | None:
    """Give a member's process: that it does not answer does not mean that it has ended, and its pid may come again."""
    if status.pid is None:
        # One that a daemon started is noted nowhere: it has to answer.
        return recorded_process(folder.pid_file)
    try:
        return psutil.Process(status.pid)
    except psutil.NoSuchProcess:
        return None
