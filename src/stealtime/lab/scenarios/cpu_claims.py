"""Claims on CPUs: of two runs that use one CPU, the second learns of the first before it measures.

A claim is a lock (flock(2)) on a file for that CPU, in a folder that all users of this machine share. The kernel lets
go of it when its holder ends, however that ends; who reads the file without the lock free reads who holds it. The agent
alone (``crates/agent/src/claims.rs``) claims in the same way.
"""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import ExitCode, StealtimeError

FOLDER_VARIABLE = "STEALTIME_CLAIMS"
"""Names another folder, for those who want to be left alone: tests."""
_SHARED = (Path("/run/lock"), Path("/dev/shm"))  # noqa: S108 - what is wanted is a folder that everybody may write to
_FOLDER = "stealtime"
_EVERYBODY = 0o666
_MOST_BYTES = 4096
_ATTEMPTS = 5
_ASKED_WITHIN_S = 0.01


@dataclass(frozen=True)
class Holder:
    """Who claims some CPUs, as it says itself."""

    what: str
    """A run's id, or the command where there is no run."""
    pid: int
    """In its own PID namespace."""
    since: str
    cpus: tuple[int, ...]
    """Those of the CPUs that were wanted which it has."""

    @property
    def words(self) -> str:
        where = f"CPU{'s' if len(self.cpus) > 1 else ''} {format_cpus(self.cpus)}"
        return f"{self.what} (pid {self.pid}) has had {where} since {self.since}"


class CpusClaimedError(StealtimeError):
    """Another run measures on a CPU that this one wants."""

    def __init__(self, holders: Collection[Holder]) -> None:
        super().__init__(
            f"{'; '.join(holder.words for holder in holders)}: two on one CPU would measure each other",
            hint="wait for its end with --wait, or name a CPU that is free with --cpu",
            exit_code=ExitCode.FAILED,
        )
        self.holders = tuple(holders)


class CpuClaims:
    """The claims of this process; they end with it at the latest.

    Args:
        cpus: Which.
        what: Who says to hold them, until :meth:`tell`.
        folder: Another one in tests.
    """

    def __init__(self, cpus: Collection[int], what: str, folder: Path | None = None) -> None:
        self._cpus = sorted(set(cpus))
        self._what = what
        self._folder = folder
        self._held: dict[int, int] = {}
        self._since = ""

    def take(self) -> None:
        """Claim all of the CPUs, or none.

        Raises:
            CpusClaimedError: Others have some of them.
            OSError: There is no folder that all users share, or it cannot be written.
        """
        holders: dict[tuple[str, int, str], list[int]] = {}
        with _opened(self._folder or shared_folder()) as folder:
            for cpu in self._cpus:
                try:
                    descriptor = _open(folder, f"cpu-{cpu}")
                except OSError:
                    self.release()
                    raise
                if _lock(descriptor):
                    self._held[cpu] = descriptor
                else:
                    holders.setdefault(_read(descriptor), []).append(cpu)
                    os.close(descriptor)
        if holders:
            self.release()
            raise CpusClaimedError([Holder(*who, tuple(cpus)) for who, cpus in holders.items()])
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self.tell(self._what)

    def tell(self, what: str) -> None:
        """Say from now on that these CPUs are held by ``what``."""
        self._what = what
        text = json.dumps({"what": what, "pid": os.getpid(), "since": self._since}).encode()
        for descriptor in self._held.values():
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)

    def release(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def held_by_others(cpus: Collection[int], folder: Path | None = None) -> list[Holder]:
    """Give who claims any of some CPUs now; nothing is claimed by asking."""
    holders: dict[tuple[str, int, str], list[int]] = {}
    with contextlib.suppress(OSError), _opened(folder or shared_folder()) as where:
        for cpu in sorted(set(cpus)):
            descriptor = _open(where, f"cpu-{cpu}")
            try:
                if not _lock(descriptor, fcntl.LOCK_SH):
                    holders.setdefault(_read(descriptor), []).append(cpu)
            finally:
                os.close(descriptor)
    return [Holder(*who, tuple(cpus)) for who, cpus in holders.items()]


def shared_folder() -> Path:
    """Give the folder of claims, made if need be so that every user can claim in it.

    Raises:
        OSError: There is none, or it cannot be made.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        folder = Path(named).resolve()
    else:
        above = next((one for one in _SHARED if _is_for_everybody(one)), None)
        if above is None:
            raise FileNotFoundError(
                f"neither {' nor '.join(map(str, _SHARED))} is a folder that everybody may write to"
            )
        folder = above / _FOLDER
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    return folder


def _is_for_everybody(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX) and bool(mode & stat.S_IWOTH)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Have a folder open. Any user may have made it before us: a link in its place could lead us anywhere."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(folder: int, name: str) -> int:
    """Open a claim's file, made if need be.

    Making it and opening it are two steps: in a folder like this one the kernel lets nobody, not even root, open
    somebody else's file with O_CREAT (``fs.protected_regular``, since Linux 4.19).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            try:
                descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, _EVERYBODY, dir_fd=folder)
            except FileExistsError:
                continue
            # The mask of who makes it is not to keep others out.
            os.fchmod(descriptor, _EVERYBODY)
            return descriptor


def _lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock a claim's file; False where another has it, and not just for the moment in which it asks."""
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_ASKED_WITHIN_S * (attempt + 1 < _ATTEMPTS))
        else:
            return True
    return False


def _read(descriptor: int) -> tuple[str, int, str]:
    """Read who says to hold a claim; what is written there may be anything."""
    try:
        said = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
        what, pid, since = str(said["what"]), int(said["pid"]), str(said["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return "something that does not say its name", 0, "an unknown time"
    return _printable(what), pid, _printable(since)


def _printable(text: str) -> str:
    return "".join(character for character in text[:100] if character.isprintable())
