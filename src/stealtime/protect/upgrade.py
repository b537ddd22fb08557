"""A host is upgraded while its machines go on: they leave, and come back to what was installed meanwhile.

Two processes do it, as this one is of the version that is replaced: :func:`begin` moves the machines away, then the
operator's command runs, and :func:`complete`, in a process of what is installed by then, does the rest. What it has to
know stands in ``upgrade.json`` in the host's folder, so that an upgrade that was interrupted can be resumed. A reboot
takes it, as all that is in ``/run``: machines then stay where they went.

Machines that stand by here keep their old standbys until the new daemon is there; then each gets a new one, one after
the other.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

import stealtime
from stealtime.protect.calling import call
from stealtime.protect.leaving import hand_over_all, what_came_of
from stealtime.protect.members import await_status, is_running, read_status, read_statuses, start_host_daemon
from stealtime.protect.programs import find_replicator
from stealtime.protect.recovery import was_stopped
from stealtime.protect.specification import unwritable
from stealtime.protect.state import HostFolder, MemberFolder, State, recorded_process
from stealtime.protect.status import RUNNING_ROLES, MemberStatus
from stealtime.vocabulary.errors import StealtimeError, UsageError

UNIT = "stealtime-host.service"

_STARTS_WITHIN_S = 60.0
_STAYS_S = 0.5
"""A daemon that cannot listen ends before that."""

Say = Callable[[str], None]


class Upgrade(BaseModel):
    """What is known of an upgrade that has begun."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    host: str
    version: str
    """Of stealtime, before it."""
    machines: tuple[str, ...]
    """Those that ran here, and are to come back."""


def host_to_upgrade(state: State, name: str | None) -> HostFolder:
    """Give the host of this machine that is meant.

    Args:
        state: Where hosts have their folders.
        name: The host; None: the only one whose daemon runs, or whose upgrade has begun.

    Raises:
        UsageError: There is none, or more than one.
    """
    living = [host for host in state.hosts() if recorded_process(host.pid_file) is not None or _file(host).exists()]
    chosen = [host for host in living if name in (None, host.host)]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise UsageError(
            f"no daemon of the host {name!r} runs here" if name else "no daemon receives machines here",
            hint="start it, so that machines can come back: systemctl start stealtime-host (docs/protect.md)",
        )
    raise UsageError(
        f"the daemons of several hosts run here: {', '.join(host.host for host in chosen)}", hint="name one with --host"
    )


def begin(host: HostFolder, within_s: float, say: Say) -> None:
    """Move all machines of a host to their standbys, and note which they are.

    Raises:
        StealtimeError: One is not protected, or has not left: then nothing was replaced.
    """
    folders = host.members()
    statuses = list(zip(folders, read_statuses(folders), strict=True))
    running = [folder for folder, status in statuses if status.role in RUNNING_ROLES]
    for folder, status in statuses:
        if folder in running and not status.protected:
            raise StealtimeError(
                f"the VM {folder.vm!r} is not protected, so it cannot leave {host.host}: nothing was changed",
                hint=f"wait for its standby, or stop it: stealtime protect stop {folder.vm}",
            )
    before = _read(host)
    machines = tuple(dict.fromkeys((*(before.machines if before else ()), *(folder.vm for folder in running))))
    upgrade = Upgrade(host=host.host, version=before.version if before else stealtime.__version__, machines=machines)
    _write(host, upgrade)
    # So that no other host that is left moves its machines here. This one is not to go down: when all have gone it
    # takes standbys of theirs again, so that they are protected while the command runs.
    host.leave()
    try:
        _, staying = hand_over_all(folders, within_s, lambda folder: say(what_came_of(folder)))
    finally:
        host.stay()
    if staying:
        names = ", ".join(folder.vm for folder in staying)
        raise StealtimeError(
            f"not upgraded: {names} is still here, as no standby has taken it over",
            hint="see `stealtime protect status`, and begin again; what has left comes back with that",
        )


def complete(host: HostFolder, within_s: float, say: Say) -> list[str]:
    """Go on after the operator's command: the daemon, the standbys and the machines of this host become the new ones.

    Returns:
        Why it did not come to its end, a sentence for each machine; it can be resumed then. After a standby that could
        not be replaced all others are left as they are: what was installed may be good for none.

    Raises:
        UsageError: No upgrade has begun.
        StealtimeError: The daemon does not start anew.
    """
    upgrade = _read(host)
    if upgrade is None:
        raise UsageError(
            f"no upgrade of {host.host} has begun",
            hint="stealtime protect upgrade -- COMMAND, without --resume; a reboot since then has forgotten it: call "
            "each machine where it shall run: stealtime protect failover VM",
        )
    # It may have been left for good meanwhile, or the process that moved its machines away was killed.
    host.stay()
    daemon = _restart_daemon(host)
    say(f"the daemon of {host.host} is stealtime {stealtime.__version__} now; it was {upgrade.version}")
    for folder in host.members():
        try:
            _renew_standby(folder, daemon.create_time(), within_s, say)
        except StealtimeError as error:
            return [f"{_in_full(error)}; other machines keep their old standbys"]
    not_back = {}
    for vm in upgrade.machines:
        try:
            _bring_back(host.member(vm), within_s, say)
        except StealtimeError as error:
            not_back[vm] = _in_full(error)
    if not_back:
        _write(host, upgrade.model_copy(update={"machines": tuple(not_back)}))
    else:
        _file(host).unlink(missing_ok=True)
    return list(not_back.values())


def _in_full(error: StealtimeError) -> str:
    return error.message if error.hint is None else f"{error.message} (hint: {error.hint})"


def _file(host: HostFolder) -> Path:
    return host.path / "upgrade.json"


def _write(host: HostFolder, upgrade: Upgrade) -> None:
    try:
        _file(host).write_text(upgrade.model_dump_json())
    except OSError as error:
        raise unwritable(_file(host), error) from error


def _read(host: HostFolder) -> Upgrade | None:
    try:
        return Upgrade.model_validate_json(_file(host).read_text())
    except (FileNotFoundError, ValidationError):
        return None


def _restart_daemon(host: HostFolder) -> psutil.Process:
    """End the daemon, and have it started anew: by systemd, if that has started it; members outlive it."""
    old = recorded_process(host.pid_file)
    is_systemds = old is not None and _is_systemds(old)
    if is_systemds:
        subprocess.run(["systemctl", "restart", UNIT], check=False)
    elif old is not None:
        old.terminate()
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline:
        daemon = recorded_process(host.pid_file)
        if daemon is None and not is_systemds:
            daemon = start_host_daemon(host)
        # One of systemd's notes itself some time after it was started.
        time.sleep(_STAYS_S)
        if daemon is not None and daemon != old and is_running(daemon):
            _check_program(host, daemon)
            return daemon
    raise StealtimeError(
        f"the daemon of {host.host} has not started anew",
        hint=f"see {host.log}; then `stealtime protect upgrade --resume`",
    )


def _is_systemds(process: psutil.Process) -> bool:
    try:
        return UNIT in Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:
        return False


def _check_program(host: HostFolder, daemon: psutil.Process) -> None:
    """See that what runs is what is installed now.

    Raises:
        StealtimeError: It is another program.
    """
    installed = find_replicator()
    try:
        runs_it = installed.samefile(f"/proc/{daemon.pid}/exe")
    except OSError:
        # It has just ended, or is somebody else's.
        runs_it = False
    if not runs_it:
        raise StealtimeError(
            f"the daemon of {host.host} does not run {installed}, which is installed now",
            hint="see how it is started; then `stealtime protect upgrade --resume`",
        )


def _renew_standby(folder: MemberFolder, since: float, within_s: float, say: Say) -> None:
    """Have the standby of a machine replaced by one of the new daemon, if it is older.

    Raises:
        StealtimeError: There is no new one.
    """
    status = read_status(folder)
    if status.role != "standby" or status.pid is None:
        return
    try:
        member = psutil.Process(status.pid)
        if member.create_time() >= since:
            return
        member.terminate()
    except psutil.NoSuchProcess:
        pass
    _await_standby(folder, within_s, unlike=status.pid)
    say(f"{folder.vm} has a new standby here, which has resumed it for trial")


def _await_standby(folder: MemberFolder, within_s: float, unlike: int | None = None) -> None:
    """Wait until a standby here could take its machine over: it has a copy, and has resumed it for trial.

    Raises:
        StealtimeError: It did not come so far.
    """

    def is_ready(status: MemberStatus) -> bool:
        return status.role == "standby" and status.protected and status.pid != unlike

    if await_status(folder, None, until=is_ready, within_s=within_s) is not None:
        return
    raise StealtimeError(
        f"{folder.vm} has no standby on {folder.host} after {within_s:g} s",
        hint=f"see `stealtime protect status {folder.vm}` where it runs, and {folder.path.parent / 'host.log'}",
    )


def _bring_back(folder: MemberFolder, within_s: float, say: Say) -> None:
    """Have a machine that ran here handed over by where it went, if it runs at all, and wait until it is protected.

    Raises:
        StealtimeError: It is not back, or not protected.
    """
    role = read_status(folder).role
    if role == "gone" and was_stopped(folder.vm, HostFolder(folder.path.parent)):
        say(f"{folder.vm} was stopped meanwhile")
        return
    if role not in RUNNING_ROLES:
        _await_standby(folder, within_s)
        call(folder, within_s)
    if await_status(folder, None, until=lambda status: status.protected, within_s=within_s) is None:
        raise StealtimeError(f"{folder.vm} is back, and not protected after {within_s:g} s")
    say(f"{folder.vm} is back")
