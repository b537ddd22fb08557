"""Writing a run: one process at a time, and every cell is whole, marked as cut short, or not there."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from stealtime.store.model import Manifest, TrialRecord
from stealtime.store.results import ResultKind, Streams
from stealtime.store.run import (
    CELLS,
    HOST_TRACE,
    MACHINE_TRACE,
    MANIFEST,
    NEIGHBOURS,
    PARTIAL_PREFIX,
    TRIAL,
    Run,
    read_document,
)
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.wire.message import TrialOutcome

if TYPE_CHECKING:
    from stealtime.store.surroundings import NeighbourTable

_LOCK = ".lock"
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DISK_FULL_HINT = "free some space, then go on with `stealtime run --resume`; every finished cell is kept"
_COPY_BYTES_MAX = 4 << 20
"""Of a log that goes into a cell; a guest that prints without end must not fill the disk a second time."""


class DiskError(StealtimeError):
    """The run cannot be written further; what is whole stays."""


@dataclass(frozen=True)
class Tables:
    """The Arrow IPC streams of one trial, as the agents sent them."""

    kind: ResultKind
    result: Streams
    """Those that the result is made of."""
    host_trace: Path | None = None
    """None if the host was not traced."""
    machine_trace: Path | None = None
    """None if the machine's own kernel was not traced."""
    neighbours: "tuple[NeighbourTable, ...]" = ()
    """Of those that lived to tell."""

    @property
    def streams(self) -> list[Path]:
        """All of them."""
        traces = (self.host_trace, self.machine_trace)
        around = [*(stream for stream in traces if stream is not None), *(one.stream for one in self.neighbours)]
        return [*self.result.values(), *around]


class RunWriter:
    """Writes one run. It holds a lock that goes away with the process, however that ends."""

    def __init__(self, folder: Path, manifest: Manifest, lock: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, runs_folder: Path, manifest: Manifest) -> "RunWriter":
        """Make the folder of a new run, named by the manifest's ``run_id``.

        Raises:
            DiskError: The folder cannot be written.
        """
        folder = runs_folder / manifest.run_id
        with disk_errors(folder):
            (folder / CELLS).mkdir(parents=True)
            writer = cls(folder, manifest, _take_lock(folder))
        writer.update()
        return writer

    @classmethod
    def reopen(cls, run: Run) -> "RunWriter":
        """Take up a run again, and remove what dead processes left half written.

        Raises:
            UsageError: Another process is writing it.
        """
        lock = _take_lock(run.folder)
        for folder in (run.folder, run.folder / CELLS):
            for leftover in folder.glob(f"{PARTIAL_PREFIX}*"):
                _remove(leftover)
        writer = cls(run.folder, run.manifest, lock)
        writer.update(state="running", finished_at=None)
        return writer

    def update(self, **changes: Any) -> None:
        """Change fields of the manifest and write it, whole.

        Raises:
            DiskError: It cannot be written; the one before stays.
        """
        self.manifest = self.manifest.model_copy(update=changes)
        path = self.folder / MANIFEST
        temporary = self.folder / f"{PARTIAL_PREFIX}{MANIFEST}"
        with disk_errors(path):
            _write_synced(temporary, self.manifest.model_dump_json(indent=2).encode())
            temporary.rename(path)
            _sync_folder(self.folder)

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Give a folder for a machine's logs, sockets and spooled tables; it is removed at the end."""
        folder = self.folder / f"{PARTIAL_PREFIX}{name}"
        with disk_errors(folder):
            folder.mkdir()
        try:
            yield folder
        finally:
            _remove(folder)

    def write_trial(self, record: TrialRecord, tables: Tables | None, logs: Mapping[str, Path]) -> Path:
        """Write one trial's folder under a temporary name and rename it when all of it is on the disk.

        It is synced before the next cell is measured, so that writing back does not disturb that one.

        A part that was kept of a trial that was cut short makes way for the whole trial and for a longer part. A
        failure is written down beside it.

        Args:
            record: Becomes ``trial.json``.
            tables: The streams to convert; None for a failed trial.
            logs: File name in the cell -> file to copy, as far as it exists.

        Raises:
            DiskError: The disk is full or the like; nothing of this trial is left.
            StealtimeError: A stream is damaged.
        """
        cells = self.folder / CELLS
        final = cells / record.trial_id
        partial = cells / f"{PARTIAL_PREFIX}{record.trial_id}"
        kept = _kept_part(final)
        if kept is not None and not _is_more(record, kept):
            if record.failure is not None:
                self._note(final, kept.model_copy(update={"failure": record.failure}))
            return final
        try:
            with disk_errors(final):
                partial.mkdir()
                if tables is not None and record.outcome is not None:
                    _write_tables(tables, partial, record, record.outcome)
                for name, source in logs.items():
                    _copy_end(source, partial / name)
                _write_synced(partial / TRIAL, record.model_dump_json(indent=2).encode())
                for path in partial.iterdir():
                    _sync(path)
                _sync_folder(partial)
                if final.exists():
                    # The failed trial, or the part of one, that a resumed run replaces.
                    final.rename(cells / f"{PARTIAL_PREFIX}replaced-{record.trial_id}")
                partial.rename(final)
                _sync_folder(cells)
        except BaseException:
            _remove(partial)
            raise
        _remove(cells / f"{PARTIAL_PREFIX}replaced-{record.trial_id}")
        return final

    def _note(self, cell: Path, record: TrialRecord) -> None:
        """Write the record of a trial anew; its tables stay.

        Raises:
            DiskError: It cannot be written; the one before stays.
        """
        temporary = cell / f"{PARTIAL_PREFIX}{TRIAL}"
        with disk_errors(cell):
            _write_synced(temporary, record.model_dump_json(indent=2).encode())
            temporary.rename(cell / TRIAL)
            _sync_folder(cell)

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._lock)


def is_being_written(folder: Path) -> bool:
    """Tell whether a living process writes the run in ``folder``."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Say in one sentence that ``path`` could not be written.

    Raises:
        DiskError: In place of any ``OSError``.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "check that it is writable, or choose another folder"
        if error.errno in DISK_FULL:
            hint = DISK_FULL_HINT
        raise DiskError(f"{path} cannot be written: {reason}", hint=hint) from error


def new_run_id(created_at: str, campaign_name: str) -> str:
    """Give a name that sorts by time and never repeats: ``20261121T195500Z-quick-3f2a``."""
    return f"{created_at}-{campaign_name}-{token_hex(2)}"


def _write_tables(tables: Tables, folder: Path, record: TrialRecord, outcome: TrialOutcome) -> None:
    # pyarrow takes 0.3 s to load; here that costs no time before the first cell.
    from stealtime.store.surroundings import write_neighbours, write_trace

    for name, write in tables.kind.tables.items():
        write(tables.result, folder / f"{name}.parquet", record)
    for stream, tracing, name in (
        (tables.host_trace, record.host_tracing, HOST_TRACE),
        (tables.machine_trace, outcome.tracing, MACHINE_TRACE),
    ):
        if stream is not None and tracing is not None:
            write_trace(stream, folder / name, tracing)
    if tables.neighbours:
        write_neighbours(tables.neighbours, folder / NEIGHBOURS)


def _kept_part(cell: Path) -> TrialRecord | None:
    """Give the record of a trial that was cut short, if ``cell`` holds one."""
    if not (cell / TRIAL).is_file():
        return None
    try:
        record = read_document(cell / TRIAL, TrialRecord, "it is replaced")
    except StealtimeError:
        # Nobody can read it: whatever comes is more.
        return None
    return record if record.state == "cut_short" else None


def _is_more(new: TrialRecord, kept: TrialRecord) -> bool:
    """Whether a trial is to take the place of the part of an earlier one."""
    if new.cut_short is None or kept.cut_short is None:
        return new.state == "measured"
    return new.cut_short.watched_s > kept.cut_short.watched_s


def _take_lock(folder: Path) -> int:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UsageError(
            f"the run {folder.name} is being written by another stealtime", hint="wait until that one has ended"
        ) from None
    return lock


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _copy_end(source: Path, target: Path) -> None:
    if not source.is_file():
        return
    with source.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        if size > _COPY_BYTES_MAX:
            reading.seek(size - _COPY_BYTES_MAX)
            writing.write(f"[{size - _COPY_BYTES_MAX} bytes before this were left out]\n".encode())
        shutil.copyfileobj(reading, writing)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
