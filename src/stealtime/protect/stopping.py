"""Ending a machine, and saying what came of it: what a member says is told, and what nobody said is not made up."""

import time
from collections.abc import Sequence

from stealtime.protect.control import ControlClient
from stealtime.protect.ending import last_reason
from stealtime.protect.members import read_status
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.status import RUNNING_ROLES
from stealtime.vocabulary.errors import StealtimeError

_STOPPED = "stopped as asked"
"""What a member says that has ended its machine and has told the register so (``ActiveEnding::Stopped``)."""

_ENDS_WITHIN_S = 30.0
_POLL_S = 0.05


def end_machine(folder: MemberFolder, members: Sequence[MemberFolder]) -> str | None:
    """Have a member end its machine, and wait until it is gone.

    Args:
        folder: Of the member that runs it.
        members: The folders of all its members on this machine, which end with it.

    Returns:
        What there is to say besides that the machine has ended; None: nothing.

    Raises:
        ControlError: It does not answer, or says that the machine has not ended, or may run elsewhere.
        StealtimeError: The member is still here, or was gone before it said what came of it.
    """
    told = ControlClient(folder.control_socket).stop()
    _await_end(members)
    if told is None and (told := last_reason(folder.events)) != _STOPPED:
        raise StealtimeError(
            f"the member of {folder.vm!r} was gone before it said whether the machine has ended"
            + (f"; it noted: {told}" if told else ""),
            hint=f"see {folder.log}, and `stealtime protect status {folder.vm}` on its other hosts",
        )
    return None if told == _STOPPED else told


def find_lone_standby(state: State, vm: str) -> MemberFolder | None:
    """Give the member of a machine that has a whole copy of it and stands by for nobody, if no other lives here.

    Whoever ran the machine is gone, or does without it, so it claims the machine, or asks for it until a register
    answers. One that is protected by its copy is no such: the machine is to be stopped where it runs.
    """
    found = [(folder, read_status(folder)) for folder in state.members(vm)]
    if any(status.role in RUNNING_ROLES for _, status in found):
        return None
    lone = (folder for folder, one in found if one.role == "standby" and one.acknowledged > 0 and not one.protected)
    return next(lone, None)


def end_standby(folder: MemberFolder) -> bool:
    """Have a standby end, so that it takes nothing over any more.

    Returns:
        Whether it stood by to its end. False: it had just taken the machine over, which has ended with it.

    Raises:
        StealtimeError: It does not answer, or does not end.
    """
    told = ControlClient(folder.control_socket).stop()
    _await_end([folder])
    return told is None


def _await_end(members: Sequence[MemberFolder]) -> None:
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while living := [member for member in members if member.lives()]:
        if time.monotonic() > deadline:
            vm, log = living[0].vm, living[0].log
            raise StealtimeError(f"a member of the VM {vm!r} did not end here", hint=f"see {log}")
        time.sleep(_POLL_S)
