"""Moving all machines of a host to their standbys before it goes down, one after the other.

Two that move at a time take the link and the CPUs of both hosts from each other, and stand still for longer.

The host is marked before any of them moves (``HostFolder.leave``): from then on it lets in no standby, and takes no
machine of another host that is left at the same time.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from stealtime.protect.ending import last_reason
from stealtime.protect.members import at_once, is_running, read_status
from stealtime.protect.state import HostFolder, MemberFolder, State, recorded_process
from stealtime.protect.status import RUNNING_ROLES, MemberStatus, Role
from stealtime.vocabulary.errors import UsageError

_POLL_S = 0.05
_LOOK_AT_STANDBYS_EVERY_S = 0.5
_NEXT_AFTER_S = 1.0
"""How long a machine waits for the one before it, which moves within a tenth of that once its standby has its state; or
it may have no standby that could take it, and hinders no other."""


@dataclass(eq=False)
class _Member:
    """One that has a machine here, or has not said yet that it has none, or stands by and may come to have one."""

    folder: MemberFolder
    role: Role = "starting"
    is_protected: bool = False
    process: psutil.Process | None = None
    """None: it is not known yet which one it is."""
    told_s: float | None = None
    """When it was told to leave."""

    def look(self) -> None:
        """Ask whether it has a machine."""
        self._heed(read_status(self.folder))

    def look_whether_it_took_over(self) -> None:
        """The same of one that stood by: if it does not answer it is not taken for one that has the machine."""
        status = read_status(self.folder)
        if status.pid is not None or status.role == "gone":
            self._heed(status)

    def _heed(self, status: MemberStatus) -> None:
        self.role, self.is_protected = status.role, status.protected
        if status.role in RUNNING_ROLES:
            self.process = _process_of(self.folder, status)

    def tell_to_leave(self) -> None:
        """Terminate it: it hands its machine over, now or as soon as a standby can take it."""
        self.told_s = time.monotonic()
        if self.process is not None:
            # It may have ended meanwhile.
            with contextlib.suppress(psutil.Error):
                self.process.terminate()

    def stays(self) -> bool:
        return self.role in RUNNING_ROLES and (self.process is None or is_running(self.process))

    def moves(self) -> bool:
        """Tell whether it was told just now, and is still here."""
        return self.told_s is not None and time.monotonic() < self.told_s + _NEXT_AFTER_S and self.stays()

    def waits(self) -> bool:
        """Tell whether it has not been told yet."""
        return self.told_s is None and self.process is not None and self.stays()

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


def hand_over_all(
    folders: Sequence[MemberFolder], within_s: float, say: Callable[[MemberFolder], None] = lambda _: None
) -> tuple[list[MemberFolder], list[MemberFolder]]:
    """Tell all members that run a machine here to leave, and wait until they have; a host's standbys stay.

    Those whose machines are protected go first, each when the one before it has left. A standby that takes its machine
    over meanwhile, as its other host has died or is left, too, is told then.

    Args:
        folders: Of the host's members.
        within_s: Then those that are still here have all been told, and are not waited for any longer.
        say: Is given each that is not here any more, as soon as that is seen.

    Returns:
        The members whose machines are not here any more, and those that are still here.
    """
    found = [_Member(folder) for folder in folders]
    at_once(_Member.look, found)
    members = sorted((one for one in found if one.role in RUNNING_ROLES), key=lambda one: not one.is_protected)
    standbys = [one for one in found if one.role == "standby"]
    said: list[_Member] = []

    def look_at_standbys() -> None:
        at_once(_Member.look_whether_it_took_over, standbys)
        members.extend(one for one in standbys if one.role in RUNNING_ROLES)
        standbys[:] = [one for one in standbys if one.role == "standby"]

    def say_who_has_left() -> None:
        for one in members:
            if one not in said and one.has_left():
                said.append(one)
                say(one.folder)

    deadline, look_at = time.monotonic() + within_s, time.monotonic()
    while True:
        if not any(one.moves() for one in members):
            for one in [one for one in members if one.waits()][:1]:
                one.tell_to_leave()
        all_left = not any(one.stays() for one in members)
        if all_left or time.monotonic() >= look_at:
            look_at_standbys()
            look_at = time.monotonic() + _LOOK_AT_STANDBYS_EVERY_S
        say_who_has_left()
        if time.monotonic() >= deadline or not any(one.stays() for one in members):
            break
        time.sleep(_POLL_S)
        at_once(_Member.look, [one for one in members if one.process is None and one.stays()])
        standbys += [one for one in members if one.role == "standby"]
        members[:] = [one for one in members if one.role != "standby"]
    # They go as soon as they can, though nobody waits for them.
    for one in [one for one in members if one.waits()]:
        one.tell_to_leave()
    # Each is looked at once, so that it is in one list.
    staying = [one for one in members if one.stays()]
    left = [one for one in members if one not in staying and one.has_left()]
    for one in left:
        if one not in said:
            say(one.folder)
    return [one.folder for one in left], [one.folder for one in staying]


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
