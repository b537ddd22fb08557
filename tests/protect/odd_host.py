"""Faulty hosts: another QEMU, a full disk, a kernel without userfaultfd.

Members meet the real thing, in a mount namespace or behind a filter of their own, and nobody else does.
"""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from two_hosts import Counting, TwoHosts, await_that

from stealtime.hosts.laboratory import Laboratory, Node
from stealtime.protect.members import Surroundings

_READY = b"ready\n"


@dataclass(frozen=True)
class OddNode(Node):
    """A host whose members run behind something."""

    behind: tuple[str, ...] = ()
    """Goes before their command line, in the host's network; it must end in an exec, so that the pid stays."""

    @property
    def surroundings(self) -> Surroundings:
        plain = super().surroundings
        return Surroundings(prefix=(*plain.prefix, *self.behind), environment=plain.environment)


@contextmanager
def put_behind(laboratory: Laboratory, name: str, *behind: str) -> Iterator[None]:
    """Have whatever is started on a host meanwhile run behind something."""
    plain = laboratory.nodes[name]
    laboratory.nodes[name] = OddNode(plain.name, plain.namespace, plain.networks, plain.last_byte, behind)
    try:
        yield
    finally:
        laboratory.nodes[name] = plain


def other_file(path: Path, content: Path) -> tuple[str, ...]:
    """Have another file in the place of one, in a mount namespace that ends with its last process."""
    return (
        "unshare",
        "--mount",
        "--",
        "sh",
        "-c",
        'mount --bind "$1" "$2" && shift 2 && exec "$@"',
        "sh",
        str(content),
        str(path),
    )


def patched(program: Path, before: bytes, after: bytes, folder: Path) -> Path:
    """Write a program that differs in a text of the same length."""
    assert len(before) == len(after)
    content = program.read_bytes()
    assert before in content, f"{program} does not hold {before!r}"
    changed = folder / f"{program.name}-changed"
    changed.write_bytes(content.replace(before, after))
    changed.chmod(0o755)
    return changed


# A filter of classic BPF (seccomp(2)): the system call 323, userfaultfd, is answered with ENOSYS, all others pass.
_WITHOUT_USERFAULTFD = f"""
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 323), (0x06, 0, 0, 0x00050000 | {errno.ENOSYS}), (0x06, 0, 0, 0x7FFF0000)]
instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(instructions)))
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, set_filter, mode_filter = 38, 22, 2
assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
assert libc.prctl(set_filter, mode_filter, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""


def without_userfaultfd() -> tuple[str, ...]:
    """Have a kernel that was built without ``CONFIG_USERFAULTFD``, as far as a process and its children can tell."""
    return (sys.executable, "-c", _WITHOUT_USERFAULTFD)


def counting_on(hosts: TwoHosts) -> Counting:
    """Have a client count, and wait until it does: a connection that is only being made may be lost, and rightly."""
    at_first = int(hosts.ask("status")["total"])
    counting = Counting(hosts)
    await_that(lambda: int(hosts.ask("status")["total"]) > at_first + 30, hosts.log_tail)
    return counting


class TinyDisk:
    """A file system of a few hundred KiB, which is gone with the process that holds it.

    Args:
        laboratory: Ends that process.
        size: As mount(8) takes it.
    """

    def __init__(self, laboratory: Laboratory, size: str = "256k") -> None:
        mount = f"mount -t tmpfs -o size={size},mode=0700 none /mnt && echo ready && exec sleep infinity"
        argv = ["unshare", "--mount", "--", "sh", "-c", mount]
        self._holder = laboratory.start("client", argv, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == _READY
        # It is in the holder's mount namespace only; this is the way there for everybody else.
        self.path = Path(f"/proc/{self._holder.pid}/root/mnt")
        self._filling = self.path / "filling"

    def fill(self) -> None:
        """Leave no byte free, also none at the end of logs."""
        for path, piece in ((self._filling, bytes(4096)), *((log, b"\n") for log in self.path.rglob("*.log"))):
            with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(piece)
        assert os.statvfs(self.path).f_bavail == 0

    def free(self) -> None:
        """Have room again."""
        self._filling.unlink()
