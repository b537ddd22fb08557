"""Spooling of a trial's tables straight into files, so that memory use stays small.

A table comes either as Arrow frames on the channel, or, where the channel is slow (the 16550 of an emulated machine
carries 0.1-0.5 MB/s), over a bulk disk that host and guest share. Either way the result is one file with the bytes of
an Arrow IPC stream.
"""

import os
from pathlib import Path
from typing import BinaryIO

from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError
from stealtime.wire.message import StreamName

BULK_ALIGNMENT_BYTES = 4096
"""Each table of a trial begins on the bulk disk at the next multiple of this; the first at 0."""

_COPY_BYTES = 1 << 20


class TableSpool:
    """The files of one trial's tables.

    Args:
        folder: Where ``samples.arrows`` and ``events.arrows`` are written.
        bulk: The file behind the guest's bulk disk, or None if tables come as frames.
    """

    def __init__(self, folder: Path, bulk: BinaryIO | None) -> None:
        self._folder = folder
        self._bulk = bulk
        self._bulk_offset_bytes = 0
        self._file: BinaryIO | None = None
        self._open_stream: StreamName | None = None
        self._received_bytes = 0
        self.paths: dict[StreamName, Path] = {}

    def begin(self, stream: StreamName) -> None:
        """Start a table.

        Raises:
            StealtimeError: The table before has not ended, this one came already, or its file cannot be made.
        """
        if self._open_stream is not None:
            raise _protocol_error(f"the table {stream!r} begins inside the table {self._open_stream!r}")
        if stream in self.paths:
            raise _protocol_error(f"the table {stream!r} came twice")
        path = self._folder / f"{stream}.arrows"
        try:
            self._folder.mkdir(exist_ok=True)
            self._file = path.open("wb")
        except OSError as error:
            raise _file_error(path, error) from error
        self._open_stream, self._received_bytes = stream, 0
        self.paths[stream] = path

    def write(self, piece: bytes) -> None:
        """Add a piece of the open table.

        Raises:
            StealtimeError: No table is open, or the disk refuses (full, for one).
        """
        if self._file is None or self._open_stream is None:
            raise _protocol_error(f"{len(piece)} bytes of a table came outside any table")
        try:
            self._file.write(piece)
        except OSError as error:
            raise _file_error(self.paths[self._open_stream], error) from error
        self._received_bytes += len(piece)

    def end(self, stream: StreamName, announced_bytes: int) -> None:
        """Complete the open table.

        Raises:
            StealtimeError: Another table is open, bytes are missing, or the disk refuses.
        """
        if self._file is None or self._open_stream != stream:
            raise _protocol_error(f"the table {stream!r} ends but {self._open_stream!r} is open")
        if self._bulk is not None and self._received_bytes == 0:
            self._copy_from_bulk(announced_bytes)
        try:
            self._file.close()
        except OSError as error:
            raise _file_error(self.paths[stream], error) from error
        self._file, self._open_stream = None, None
        if self._received_bytes != announced_bytes:
            raise StealtimeError(
                f"the table {stream!r} has {self._received_bytes} bytes, the agent sent {announced_bytes}",
                hint="measure again; if it comes back, the channel of this platform loses data: please report it",
            )

    def discard(self) -> None:
        """Close and remove what is there, because the trial failed."""
        if self._file is not None:
            self._file.close()
            self._file, self._open_stream = None, None
        for path in self.paths.values():
            path.unlink(missing_ok=True)

    def restart(self) -> None:
        """Remove what is there, because it is kept elsewhere: the next tables begin anew, on the bulk disk as well."""
        self.discard()
        self.paths = {}
        self._bulk_offset_bytes = 0

    def _copy_from_bulk(self, length_bytes: int) -> None:
        assert self._bulk is not None  # noqa: S101 - for the type checker; the caller looked
        end = self._bulk_offset_bytes + length_bytes
        position = self._bulk_offset_bytes
        while position < end:
            piece = os.pread(self._bulk.fileno(), min(_COPY_BYTES, end - position), position)
            if not piece:
                break
            self.write(piece)
            position += len(piece)
        self._bulk_offset_bytes = -(-end // BULK_ALIGNMENT_BYTES) * BULK_ALIGNMENT_BYTES


def _protocol_error(message: str) -> StealtimeError:
    return StealtimeError(
        f"the agent broke the protocol: {message}",
        hint=REINSTALL_HINT,
    )


def _file_error(path: Path, error: OSError) -> StealtimeError:
    return StealtimeError(
        f"cannot write {path}: {error.strerror or error}",
        hint="free some space there or choose another place with --runs",
    )
