"""The state folders of members and host daemons: one for each host, in it one for each machine.

``STATE/HOST/VM/`` belongs to a member: its spec, log, control socket, per-epoch figures. ``STATE/HOST/host.*`` belong
to the daemon that receives machines. Several hosts have folders here only where one machine plays them.
``STATE/register`` is the register where no other is named; members make it when they use it. Nobody but the owner of
the state can make anything there: a folder where every user may make one could be somebody else's before it is ours.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from stealtime._core import owner_of
from stealtime.protect.endpoint import LONGEST_SOCKET_PATH
from stealtime.protect.vm_file import VM_NAME
from stealtime.vocabulary.errors import StealtimeError

STATE_VARIABLE = "STEALTIME_PROTECT_STATE"

_LOCK = "lock"
"""Held by a member (``member_folder.rs``). It stays: one that is about to live there may hold it already."""
_PROMISE = "promise.json"
_IS_MACHINE = re.compile(VM_NAME)
_REGISTER = "register"
_EARLIER_REGISTER = Path("/dev/shm/stealtime-register")  # noqa: S108 - never made, and used only where it is root's
"""Root's register in releases up to 2026-11: members that live may still use it, and both sides of a machine must look
into the same one. It goes with the next reboot."""
_LEAVING = ".leaving"
"""As ``leaving.rs`` names it: of what boot a host is to go down. No machine has such a name."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_KEPT_SUFFIXES = (".csv", ".jsonl", ".log")
"""What a member's last life says to a person outlives it, older halves too; sockets, memory and specs do not."""
_OLDER_HALF = ".1"
"""As ``bounded_file.rs`` names it."""


class _Inside:
    """A file of a folder, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "MemberFolder | HostFolder", _kind: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class MemberFolder:
    """The folder of one machine on one host."""

    path: Path

    @property
    def vm(self) -> str:
        return self.path.name

    @property
    def host(self) -> str:
        """The host, as the register names it."""
        return self.path.parent.name

    control_socket = _Inside("control.sock")
    """Where the member takes commands."""
    spec = _Inside("spec.json")
    log = _Inside("member.log")
    """What it and its QEMU say."""
    epochs = _Inside("epochs.csv")
    """What each epoch cost."""
    events = _Inside("events.jsonl")
    """What happened to it."""
    pid_file = _Inside("member.pid")
    """Who was started here by ``start``."""

    def lives(self) -> bool:
        """Tell whether a member is here: one that was started here, or one that a daemon started for another host."""
        return (
            recorded_process(self.pid_file) is not None
            or _is_locked(self.path / _LOCK)
            or _is_listened_on(self.control_socket)
        )

    def promised_bytes(self) -> int:
        """Tell what memory was promised to the member that lives here and is not used by it yet (``promise.rs``)."""
        try:
            promised = int(json.loads((self.path / _PROMISE).read_text())["bytes"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        return promised if self.lives() else 0

    def clear(self) -> None:
        """Remove what a dead member left, but for what it says to a person."""
        for entry in self.path.iterdir() if self.path.is_dir() else ():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif not entry.name.removesuffix(_OLDER_HALF).endswith(_KEPT_SUFFIXES) and entry.name != _LOCK:
                entry.unlink(missing_ok=True)


@dataclass(frozen=True)
class HostFolder:
    """The folder of one host."""

    path: Path

    @property
    def host(self) -> str:
        return self.path.name

    socket = _Inside("host.sock")
    """Where its daemon listens, if it listens on this machine only."""
    config = _Inside("host.json")
    log = _Inside("host.log")
    """What the daemon and its members say."""
    pid_file = _Inside("host.pid")
    """Who was started here."""

    def member(self, vm: str) -> MemberFolder:
        """Give the folder of a machine here.

        Raises:
            StealtimeError: Its sockets would have names that the kernel does not take.
        """
        folder = MemberFolder(self.path / vm)
        # QEMU's and the control socket's names are no longer than this one.
        if len(os.fsencode(folder.control_socket)) > LONGEST_SOCKET_PATH:
            raise StealtimeError(
                f"{folder.control_socket} is too long for a socket, whose path has at most {LONGEST_SOCKET_PATH} bytes",
                hint=f"name the host or the VM shorter, or set ${STATE_VARIABLE} to a shorter folder",
            )
        return folder

    def members(self) -> list[MemberFolder]:
        """Give the folders of all machines here, living or not. A host has others, too (``admission/queue.rs``)."""
        entries = sorted(self.path.iterdir())
        return [MemberFolder(entry) for entry in entries if _IS_MACHINE.fullmatch(entry.name) and entry.is_dir()]

    def promised_bytes(self, vm: str) -> int:
        """Tell what memory is promised to the members here but that of ``vm``, and not used by them yet."""
        return sum(member.promised_bytes() for member in self.members() if member.vm != vm)

    def leave(self) -> None:
        """Have it take no machines from now on, until it is booted or :meth:`stay` is called: it is to go down.

        Raises:
            StealtimeError: That cannot be noted.
        """
        try:
            (self.path / _LEAVING).write_text(_BOOT_ID.read_text())
        except OSError as error:
            raise StealtimeError(
                f"{self.host} cannot be kept from taking machines: {error.strerror}",
                hint=f"see that there is room for {self.path / _LEAVING}, or stop its daemon",
            ) from error

    def stay(self) -> bool:
        """Have it take machines again; tell whether it took none."""
        try:
            (self.path / _LEAVING).unlink()
        except FileNotFoundError:
            return False
        return True


@dataclass(frozen=True)
class State:
    """All hosts that have a folder on this machine."""

    path: Path
    register_folder: Path | None = None
    """None: in ``path``."""

    @property
    def register(self) -> Path:
        """The register's folder where no other is named."""
        return self.register_folder or self.path / _REGISTER

    def host(self, name: str) -> HostFolder:
        """Give a host's folder, made if need be; it is its owner's alone.

        Raises:
            StealtimeError: It cannot be made.
        """
        folder = self.path / name
        try:
            # The mode is of the last folder alone.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StealtimeError(
                f"the folder {folder} cannot be made: {error.strerror}",
                hint=f"run as root, or set ${STATE_VARIABLE} to a folder you can write",
            ) from error
        return HostFolder(folder)

    def hosts(self) -> list[HostFolder]:
        if not self.path.is_dir():
            return []
        return [
            HostFolder(entry)
            for entry in sorted(self.path.iterdir())
            # No host has such a name; images may lie there.
            if entry.is_dir() and entry.name != _REGISTER and not entry.name.startswith(".")
        ]

    def members(self, vm: str | None = None) -> list[MemberFolder]:
        return [member for host in self.hosts() for member in host.members() if vm is None or member.vm == vm]

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let one start or stop at a time decide what lives here."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path / "starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def default_state() -> State:
    """Give ``$STEALTIME_PROTECT_STATE``, else ``/run/stealtime/protect`` for root and what the user has for others.

    Raises:
        StealtimeError: The user has no folder that ends with the session.
    """
    chosen = os.environ.get(STATE_VARIABLE)
    if chosen:
        return State(Path(chosen).absolute())
    if os.geteuid() == 0:
        register = _EARLIER_REGISTER if _is_ours_alone(_EARLIER_REGISTER) else None
        return State(Path("/run/stealtime/protect"), register)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise StealtimeError(
            "there is no folder for sockets: XDG_RUNTIME_DIR is not set",
            hint=f"run as root, or make a folder of your own and name it: export {STATE_VARIABLE}=$HOME/protect",
        )
    return State(Path(runtime) / "stealtime" / "protect")


def _is_ours_alone(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def this_host() -> str:
    """Give this machine's name in the register, unless another one is given."""
    return socket.gethostname().partition(".")[0] or "host"


def record_process(pid_file: Path, pid: int, **facts: bool | str) -> None:
    """Note who was started; pids come again, so its mark stands beside it."""
    with contextlib.suppress(FileNotFoundError):
        pid_file.write_text(json.dumps({"pid": pid, "owner": owner_of(pid), **facts}))


def recorded_process(pid_file: Path) -> psutil.Process | None:
    """Give the process that was noted, if it still lives."""
    try:
        noted = json.loads(pid_file.read_text())
        process = psutil.Process(int(noted["pid"]))
        # The pid must still be that process's, as numbered here: another namespace may number another one so.
        is_it = owner_of(process.pid) == noted["owner"]
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None
    return process if is_it else None


def _is_locked(path: Path) -> bool:
    """Tell whether a process holds the lock (flock(2)) of a file. To ask for it would be to hold it for a moment."""
    try:
        file = path.stat()
        locks = Path("/proc/locks").read_text("ascii")
    except OSError:
        return False
    # As proc_locks(5) names a file; elsewhere than in memory and on plain disks the device may be another one.
    name = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    return any(line.split()[1:6:4] == ["FLOCK", name] for line in locks.splitlines())


def _is_listened_on(path: Path) -> bool:
    """Tell whether a process listens on a socket: the file outlives it, but connections are then refused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(os.fsencode(path).decode())
        except (BlockingIOError, TimeoutError):
            return True  # its queue is full: it stands still, but it is there
        except OSError:
            return False
    return True
