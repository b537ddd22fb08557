"""Standard output and standard error that take every character and raise nothing.

A measurement must not be lost because nobody can read of it: a reader that is gone, a full disk behind ``>``, a closed
descriptor or an old terminal's character set end no command in the middle. What cannot be encoded is written in ASCII
(``us`` for the micro sign); that standard output could not be written is told once, at the end.
"""

import codecs
import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from stealtime.cli.ascii_forms import in_ascii

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

IN_ASCII = "stealtime.in_ascii"
"""The name of our way with characters that an encoding has not (see ``codecs.register_error``)."""


class PatientFile(io.RawIOBase):
    """A descriptor that accepts everything; the first error is kept in ``error``, and what comes after it is dropped.

    Args:
        descriptor: Where it goes.
        error: Why nothing can be written from the beginning.
    """

    def __init__(self, descriptor: int, error: OSError | None = None) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.error = error

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return self.error is None and os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer") -> int:
        """Write, or drop what cannot be written."""
        size = memoryview(data).nbytes
        while self.error is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                # Whoever shares the descriptor, as ssh does, has made it so.
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.error = error
        return size


def prepare() -> None:
    """Make the standard streams of this process patient; those that somebody captures only take every character."""
    codecs.register_error(IN_ASCII, _in_ascii_instead)
    closed = _plug()
    sys.stdout = _prepared(sys.stdout, sys.__stdout__, 1, is_closed=1 in closed)
    sys.stderr = _prepared(sys.stderr, sys.__stderr__, 2, is_closed=2 in closed)


def lost_output() -> OSError | None:
    """Say why standard output could not be written; None where all of it was, as far as is known."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, PatientFile) else None


def _plug() -> set[int]:
    """Open what was closed (``>&-``): else the next file that is opened would become standard output."""
    closed = set()
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            closed.add(descriptor)
            # The lowest free number is the one that is missing; programs that we start expect it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    return closed


def _prepared(stream: TextIO | None, own: TextIO | None, descriptor: int, *, is_closed: bool) -> TextIO:
    if stream is not None and stream is not own:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=IN_ASCII)
        return stream
    error = OSError(errno.EBADF, "it is closed") if is_closed or stream is None else None
    raw = PatientFile(descriptor, error)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if stream is None else stream.encoding,
        errors=IN_ASCII,
        line_buffering=descriptor == 2 or raw.isatty(),
    )


def _in_ascii_instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return in_ascii(error.object[error.start : error.end]), error.end
