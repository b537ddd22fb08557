"""Members and host daemons as processes: started detached, with their log in their folder, and found again."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from stealtime.lab.platforms.process import RUN_MARK
from stealtime.protect.control import ANSWER_WITHIN_S, ControlClient, ControlError
from stealtime.protect.disk_links import default_folder, keep_links
from stealtime.protect.ending import ending_error
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.programs import find_replicator, member_environment
from stealtime.protect.specification import HostSpec, MemberSpec, unwritable, write_document
from stealtime.protect.state import HostFolder, MemberFolder, State, record_process, recorded_process
from stealtime.protect.status import RUNNING_ROLES, Alarm, MemberStatus
from stealtime.vocabulary.errors import StealtimeError, UsageError

_ANSWERS_WITHIN_S = 30.0
"""A member takes commands before it boots its guest; on an overloaded host that may take seconds."""

_POLL_S = 0.05

TOLD_WITHIN_S = 5.0
"""What is said of all members of a host waits no longer for one: ``all_hosts`` gives a host 20 s in all."""
_AT_ONCE = 128
"""Members that are waited for at the same time; each takes a thread, which sleeps."""

Subject = TypeVar("Subject")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Surroundings:
    """Where a process is started: on a host of the laboratory not in our own network."""

    prefix: tuple[str, ...] = ()
    """Goes before the command line; it must end in an exec, so that the pid stays."""
    environment: tuple[tuple[str, str], ...] = ()


def active_command(folder: MemberFolder, *, force: bool, only_current_disks: bool = False) -> list[str]:
    options = {"--force": force, "--only-current-disks": only_current_disks}
    given = [option for option, is_given in options.items() if is_given]
    return [str(find_replicator()), "active", "--spec", str(folder.spec), *given]


def host_command(folder: HostFolder) -> list[str]:
    return [str(find_replicator()), "host", "--config", str(folder.config)]


def prepare_member(folder: MemberFolder, spec: MemberSpec) -> None:
    """Make a member's folder anew and write its specification.

    Raises:
        UsageError: A member of the same machine lives there.
        StealtimeError: It cannot be written.
    """
    if folder.lives():
        raise UsageError(
            f"the VM {folder.vm!r} already has a member on the host {folder.host!r}",
            hint=f"see `stealtime protect status {folder.vm}`; end it with `stealtime protect stop {folder.vm}`",
        )
    host = HostFolder(folder.path.parent)
    images = zip((disk.name for disk in spec.machine.disks), spec.disk_images, strict=True)
    opened = tuple(keep_links(host.config, default_folder(host.path.parent, host.host), folder.vm, images))
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.clear()
    try:
        write_document(folder.spec, spec.model_copy(update={"disk_images": opened}))
    except StealtimeError:
        with contextlib.suppress(OSError):
            folder.path.rmdir()  # unless an earlier life left a log in it
        raise


def start_member(
    folder: MemberFolder,
    *,
    force: bool = False,
    only_current_disks: bool = False,
    surroundings: Surroundings = Surroundings(),
) -> psutil.Process:
    """Start the member whose folder was prepared; it outlives us."""
    command = active_command(folder, force=force, only_current_disks=only_current_disks)
    return _start(command, folder.log, folder.pid_file, surroundings)


def ensure_host_daemon(host: HostFile, state: State, *, automatic: bool) -> HostSpec:
    """See that the daemon of a host of this machine runs, with this configuration.

    Args:
        host: Its configuration.
        state: Where it lives.
        automatic: Whether it is ended when the last machine is gone.

    Raises:
        UsageError: It runs with another configuration.
        StealtimeError: It cannot be started.
    """
    spec = host_spec(host, state)
    folder = state.host(spec.name)
    if recorded_process(folder.pid_file) is not None:
        if folder.config.read_text() != spec.text():
            raise UsageError(
                f"the host {spec.name!r} already runs here with another configuration, see {folder.config}",
                hint="stop the machines that use it first, or use the same bridge, register and identity",
            )
        return spec
    write_document(folder.config, spec)
    listens_on = Path(spec.listen.removeprefix("unix:")) if spec.listen.startswith("unix:") else None
    if listens_on is not None:
        # That of an earlier life would be taken for the new one.
        listens_on.unlink(missing_ok=True)
    process = start_host_daemon(folder, automatic=automatic)
    if listens_on is not None:
        await_socket(listens_on, process, folder.log)
    return spec


def start_host_daemon(
    folder: HostFolder, *, automatic: bool = False, surroundings: Surroundings = Surroundings()
) -> psutil.Process:
    """Start the daemon whose configuration was written; it outlives us."""
    return _start(host_command(folder), folder.log, folder.pid_file, surroundings, automatic=automatic)


def end_idle_hosts(state: State) -> list[str]:
    """End the daemons that were started for `--to local` and serve nobody any more; give their names."""
    ended = []
    for host in state.hosts():
        process = recorded_process(host.pid_file)
        if process is None or '"automatic": true' not in host.pid_file.read_text():
            continue
        if not any(member.lives() for other in state.hosts() for member in other.members()):
            process.send_signal(signal.SIGTERM)
            host.pid_file.unlink(missing_ok=True)
            ended.append(host.host)
    return ended


def await_socket(path: Path, process: psutil.Process, log: Path) -> None:
    """Wait until a process that was just started has made its socket.

    Raises:
        StealtimeError: It ended, or did not come that far.
    """
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    while not path.exists():
        if not is_running(process):
            raise ending_error("the host daemon ended immediately", log)
        if time.monotonic() > deadline:
            raise StealtimeError(
                f"the host daemon has not made {path} within {_ANSWERS_WITHIN_S:g} s", hint=f"see {log}"
            )
        time.sleep(_POLL_S)


def await_status(
    folder: MemberFolder,
    process: psutil.Process | None,
    *,
    until: Callable[[MemberStatus], bool],
    within_s: float,
    on_status: Callable[[MemberStatus], None] = lambda _: None,
) -> MemberStatus | None:
    """Ask a member again and again.

    Args:
        folder: Its folder.
        process: The member; its end ends the waiting. None if it is not known.
        until: What is waited for.
        within_s: How long.
        on_status: Receives each answer.

    Returns:
        The answer that was waited for, or None if it did not come in time.

    Raises:
        StealtimeError: The member ended.
    """
    deadline = time.monotonic() + within_s
    client = ControlClient(folder.control_socket)
    while True:
        try:
            status = client.status()
        except ControlError:
            # Not listening yet, or just gone: what its process does decides.
            if process is not None and not is_running(process):
                raise ending_error(f"the member of {folder.vm!r} ended", folder.log) from None
        else:
            on_status(status)
            if until(status):
                return status
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def read_status(folder: MemberFolder, within_s: float = ANSWER_WITHIN_S) -> MemberStatus:
    """Give what a member says, or that nobody lives there any more."""
    try:
        return ControlClient(folder.control_socket).status(within_s=within_s)
    except ControlError as error:
        lives = folder.lives()
        # One that has just begun has no socket yet.
        is_deaf = lives and folder.control_socket.exists()
        return MemberStatus(
            vm=folder.vm,
            host=folder.host,
            role="starting" if lives else "gone",
            protected=False,
            alarms=(Alarm(kind="control", text=f"it lives and cannot be asked: {error.message}"),) if is_deaf else (),
            warnings=(error.message,) if lives and not is_deaf else (),
        )


def read_statuses(folders: Sequence[MemberFolder]) -> list[MemberStatus]:
    """Give what many members say, asked at the same time: one that stands still delays no other."""
    return at_once(lambda folder: read_status(folder, TOLD_WITHIN_S), folders)


def at_once(act: Callable[[Subject], Result], subjects: Sequence[Subject]) -> list[Result]:
    """Do something with each of many members at the same time, and give what came of each, in their order."""
    if not subjects:
        return []
    with ThreadPoolExecutor(min(len(subjects), _AT_ONCE)) as threads:
        return list(threads.map(act, subjects))


def running_member(state: State, vm: str) -> tuple[MemberFolder, MemberStatus]:
    """Give the member that has a machine.

    Raises:
        StealtimeError: It is on another host, or nowhere.
    """
    found = [(folder, read_status(folder)) for folder in state.members(vm)]
    for folder, status in found:
        if status.role in RUNNING_ROLES:
            return folder, status
    standby = next((status for _, status in found if status.role == "standby"), None)
    if standby is not None:
        raise StealtimeError(
            f"the VM {vm!r} does not run here: {standby.host!r} is its standby",
            hint="run this command on the host where it runs",
        )
    if found:
        raise StealtimeError(
            f"the VM {vm!r} does not run here any more: its member has ended",
            hint=f"see {found[0][0].log}; `stealtime protect stop {vm}` removes its files",
        )
    known = sorted({folder.vm for folder in state.members()})
    raise StealtimeError(
        f"the VM {vm!r} does not run on this host",
        hint=f"known here: {', '.join(known)}"
        if known
        else "none is protected here: `stealtime protect start` begins it",
    )


def _start(
    argv: Sequence[str], log: Path, pid_file: Path, surroundings: Surroundings, **facts: bool | str
) -> psutil.Process:
    environment = {**member_environment(), **dict(surroundings.environment)}
    if RUN_MARK not in dict(surroundings.environment):
        # What carries the mark is ended by the next run of anything when we are gone; this must outlive us.
        environment.pop(RUN_MARK, None)
    try:
        output = log.open("ab")
    except OSError as error:
        raise unwritable(log, error) from error
    with output:
        started = psutil.Popen(
            [*surroundings.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    try:
        record_process(pid_file, started.pid, **facts)
    except OSError as error:
        # Nobody would find it again.
        started.kill()
        started.wait()
        raise unwritable(pid_file, error) from error
    return started


def replace_this_process(argv: Sequence[str]) -> None:
    """Become a member or a daemon, for a supervisor that watches this very process."""
    os.execve(argv[0], list(argv), member_environment())  # noqa: S606 - no shell is wanted
