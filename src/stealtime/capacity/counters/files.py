"""Files of the kernel that are read again and again: opened once, read from the start each time.

A file of procfs that stays open costs 1.1 us a reading on the first machine (Python 3.11, Linux 6.18), one that is
opened each time 6 us. A descriptor of a thread's file fails with ESRCH once the thread is gone, also if its id comes
again.
"""

import contextlib
import os
import resource
from pathlib import Path

_KEPT_FREE = 128
"""Descriptors left for everything else."""
_PIECE_BYTES = 1 << 16


def allow_many_files() -> int:
    """Raise this process's soft limit of open files to the hard one; give how many may be kept open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 16) if hard != resource.RLIM_INFINITY else 1 << 16
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(0, soft - _KEPT_FREE)


class OpenFiles:
    """Counts the descriptors that are kept, so that the process never runs out of them."""

    def __init__(self) -> None:
        self._left = allow_many_files()

    def open(self, path: Path | str) -> "KernelFile":
        """Open a file for repeated reading.

        Raises:
            OSError: It is not there, or may not be read.
        """
        if self._left <= 0:
            return KernelFile(os.fspath(path), None, self)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._left -= 1
        return KernelFile(os.fspath(path), descriptor, self)

    def given_back(self) -> None:
        self._left += 1


class KernelFile:
    """One file; opened for each reading where there is no descriptor left to keep."""

    __slots__ = ("_files", "descriptor", "path")

    def __init__(self, path: str, descriptor: int | None, files: OpenFiles) -> None:
        self.path = path
        self.descriptor = descriptor
        self._files = files

    def read(self) -> bytes:
        """Read it whole. The kernel gives as much at a time as it likes, and says with nothing that there is no more.

        Raises:
            OSError: What it tells of is gone.
        """
        if self.descriptor is not None:
            return _whole(self.descriptor)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _whole(descriptor)
        finally:
            os.close(descriptor)

    def read_short(self, most_bytes: int) -> bytes:
        """Read a file that is known to be short, by one system call.

        Args:
            most_bytes: It has fewer than these.

        Raises:
            OSError: What it tells of is gone.
        """
        if self.descriptor is not None:
            return os.pread(self.descriptor, most_bytes, 0)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, most_bytes)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            self._files.given_back()


def _whole(descriptor: int) -> bytes:
    pieces, position = [], 0
    while piece := os.pread(descriptor, _PIECE_BYTES, position):
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)
