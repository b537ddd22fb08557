"""OpenSSH's server, the real one, on nodes of a laboratory: unpacked, since installed it would start for everybody."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fetched_programs import unpack_fetched

from stealtime.hosts.laboratory import Laboratory
from stealtime.lab.image.debian_programs import resolve_packages

_WHAT = "OpenSSH's server"
_PACKAGES = ("openssh-server", "libwrap0")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_START_S = 20.0
_SETTINGS = """
ListenAddress {address}
HostKey {folder}/host.key
AuthorizedKeysFile {folder}/own.key.pub
PidFile {folder}/{name}.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
"""
# The server demands a user of its own name and an empty folder: the user is only in its own view of /etc/passwd.
_START = (
    "mount --bind {folder}/passwd /etc/passwd && "
    "LD_LIBRARY_PATH={libraries} exec {program} -D -e -f {folder}/{name}.conf"
)
_ROOM = Path("/run/sshd")


def unpack_sshd(unpacked: Path) -> None:
    """Fetch it into a folder that is not there yet.

    Raises:
        StealtimeError: Its packages cannot be had.
    """
    found = resolve_packages(_PACKAGES, _WHAT)
    # All else that it needs comes with its client, which is installed.
    unpack_fetched({name: found[name] for name in _PACKAGES}, unpacked, _WHAT)


@contextmanager
def ssh_daemons(laboratory: Laboratory, names: Sequence[str], unpacked: Path, folder: Path) -> Iterator[Path]:
    """Run a server on each of these nodes; gives the key that they let in."""
    for key in ("host.key", "own.key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    (folder / "passwd").write_text(
        Path("/etc/passwd").read_text() + "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    )
    is_ours = not _ROOM.exists()
    _ROOM.mkdir(mode=0o755, exist_ok=True)
    started = []
    try:
        for name in names:
            address = laboratory.nodes[name].address("clients")
            (folder / f"{name}.conf").write_text(_SETTINGS.format(address=address, folder=folder, name=name))
            places = {"program": unpacked / "usr/sbin/sshd", "libraries": unpacked / _LIBRARIES}
            script = _START.format(folder=folder, name=name, **places)
            log = (folder / f"{name}.log").open("wb")
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
            with log:
                started.append(laboratory.start(name, argv, stdout=log, stderr=subprocess.STDOUT))
        for name in names:
            _await(folder / f"{name}.log")
        yield folder / "own.key"
    finally:
        for process in started:
            process.kill()
            process.wait()
        if is_ours:
            with contextlib.suppress(OSError):
                _ROOM.rmdir()


def _await(log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while "Server listening" not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"sshd does not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
