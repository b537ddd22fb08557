"""Machines of a campaign on another machine, on a host that is lent to it, and how they go.

Their names begin with the campaign's prefix. Beside them there is one folder with what they boot from, in one of those
that the host's daemon lets machines boot from; it holds the mark of the process that serves the campaign here.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from stealtime._core import owner_of
from stealtime.hosts.waiting import poll
from stealtime.lab.platforms.leftovers import is_left_over
from stealtime.protect.control import ControlClient, ControlError
from stealtime.protect.members import read_status
from stealtime.protect.state import MemberFolder, State, recorded_process
from stealtime.protect.status import RUNNING_ROLES

FOLDER_PREFIX = "stealtime-lent-"
"""Of the folder's name; then the machines' prefix."""
OWNER_FILE = "owner"
"""In it: the mark of the process that serves the campaign."""
_ENDS_WITHIN_S = 20.0
_KILLED_WITHIN_S = 5.0


def make_folder(path: Path) -> None:
    """Make the folder for images, with our mark.

    Raises:
        OSError: It cannot be made, or is there.
    """
    path.mkdir(mode=0o755)
    (path / OWNER_FILE).write_text(owner_of())


def lent_members(state: State, prefix: str) -> list[MemberFolder]:
    """Give the folders of a campaign's machines here."""
    return [member for member in state.members() if is_of(member.vm, prefix)]


def is_of(vm: str, prefix: str) -> bool:
    return vm.startswith(f"{prefix}-")


def clear_left_over(state: State, parents: Iterable[Path]) -> None:
    """End and remove what earlier campaigns left whose process here was killed."""
    for parent in parents:
        for folder in parent.glob(f"{FOLDER_PREFIX}*"):
            try:
                owner = (folder / OWNER_FILE).read_text()
            except OSError:
                continue
            if is_left_over(owner):
                clear(state, folder.name.removeprefix(FOLDER_PREFIX), folder)


def clear(state: State, prefix: str, folder: Path) -> None:
    """End and remove a campaign's machines here, and its folder."""
    for member in lent_members(state, prefix):
        end_member(member)
    shutil.rmtree(folder, ignore_errors=True)


def end_member(folder: MemberFolder) -> None:
    """End a machine if it is here; wait for it if it is elsewhere and about to end there; then remove its folder."""
    if read_status(folder).role in RUNNING_ROLES:
        with contextlib.suppress(ControlError):
            ControlClient(folder.control_socket).stop()
    if not poll(lambda: not folder.lives(), _ENDS_WITHIN_S):
        noted = recorded_process(folder.pid_file)
        for pid in (read_status(folder).pid, None if noted is None else noted.pid):
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        poll(lambda: not folder.lives(), _KILLED_WITHIN_S)
    shutil.rmtree(folder.path, ignore_errors=True)
