"""Writing a run: one process at a time, and every cell is whole, marked as cut short, or not there."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from stealtime.store.adoption import adopt, adopt_waiting, leave
from stealtime.store.documents import (
    CELLS,
    COUNTS,
    ENVELOPE,
    HOST_TRACE,
    LONGEST,
    MACHINE_TRACE,
    MANIFEST,
    NEIGHBOURS,
    PARTIAL_PREFIX,
    TRIAL,
)
from stealtime.store.files import remove, sync_folder, write_synced
from stealtime.store.lock import take_lock
from stealtime.store.model import Failure, Manifest, TrialRecord
from stealtime.store.partial import PartialTrial
from stealtime.store.placing import makes_way, place
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.run import Run, Trial
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TrialOutcome

if TYPE_CHECKING:
    from stealtime.store.neighbour_table import NeighbourTable

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
        traces = (self.host_trace, self.machine_trace)
        around = [*(stream for stream in traces if stream is not None), *(one.stream for one in self.neighbours)]
        return [*self.result.values(), *around]


@dataclass(frozen=True)
class KeptParts:
    """A trial that was kept as far as it came."""

    record: TrialRecord
    unjoined: DiskError | None
    """Why it stays in parts; None if they were joined."""


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
        with _errors_of_a_run(folder):
            (folder / CELLS).mkdir(parents=True)
            writer = cls(folder, manifest, take_lock(folder))
        writer.update()
        return writer

    @classmethod
    def reopen(cls, run: Run) -> "RunWriter":
        """Take up a run again: keep what dead processes left in parts, and remove what they left half written.

        Raises:
            DiskError: It cannot be written; parts that could not be joined stay.
            UsageError: Another process is writing it.
        """
        writer = cls(run.folder, run.manifest, take_lock(run.folder))
        try:
            with _errors_of_a_run(run.folder):
                adopt_waiting(run.folder)
            for folder in (run.folder, run.folder / CELLS):
                for leftover in folder.glob(f"{PARTIAL_PREFIX}*"):
                    remove(leftover)
            writer.update(state="running", finished_at=None)
        except BaseException:
            writer.close()
            raise
        return writer

    def update(self, **changes: Any) -> None:
        """Change fields of the manifest and write it, whole.

        Raises:
            DiskError: It cannot be written; the one before stays.
        """
        self.manifest = self.manifest.model_copy(update=changes)
        path = self.folder / MANIFEST
        temporary = self.folder / f"{PARTIAL_PREFIX}{MANIFEST}"
        with _errors_of_a_run(path):
            write_synced(temporary, self.manifest.model_dump_json(indent=2).encode())
            temporary.rename(path)
            sync_folder(self.folder)

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Give a folder for a machine's logs, sockets and spooled tables; it is removed at the end."""
        folder = self.folder / f"{PARTIAL_PREFIX}{name}"
        with _errors_of_a_run(folder):
            folder.mkdir()
        try:
            yield folder
        finally:
            remove(folder)

    def write_trial(self, record: TrialRecord, tables: Tables | None, logs: Mapping[str, Path]) -> Path:
        """Write one trial's folder under a temporary name and rename it when all of it is on the disk.

        It is synced before the next cell is measured, so that writing back does not disturb that one.

        What was written of it in parts is joined with what came after them.

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
        partial = PartialTrial.of(cells, record.trial_id)
        with _errors_of_a_run(final):
            if not makes_way(final, record):
                return final
            try:
                partial.folder.mkdir(exist_ok=True)
                if tables is not None and record.outcome is not None:
                    partial.write_tables(record, tables.kind, tables.result)
                    _write_surroundings(tables, partial.folder, record, record.outcome)
                for name, source in logs.items():
                    _copy_end(source, partial.folder / name)
                write_synced(partial.folder / TRIAL, record.model_dump_json(indent=2).encode())
            except BaseException:
                partial.abandon()
                raise
            partial.drop_parts()
            _count(Trial(partial.folder, record))
            return place(partial.folder, record)

    def append_part(self, record: TrialRecord, kind: ResultKind, streams: Streams) -> None:
        """Have a part of a trial that goes on on the disk: whatever happens, it is there.

        Args:
            record: What came of the trial so far.
            kind: Of its result.
            streams: What was measured since the part before.

        Raises:
            DiskError: The disk is full or the like; the parts before stay.
            StealtimeError: A stream is damaged.
        """
        partial = PartialTrial.of(self.folder / CELLS, record.trial_id)
        with _errors_of_a_run(partial.folder):
            partial.append(record, kind, streams)

    def adopt_part(
        self, trial_id: str, why: str, failure: Failure | None, logs: Mapping[str, Path]
    ) -> KeptParts | None:
        """Keep the parts of a trial that gives nothing more, as one that was cut short.

        Args:
            trial_id: Which.
            why: What ended it: a part of a sentence.
            failure: The same at length, where it was no wish.
            logs: File name in the cell -> file to copy, as far as it exists.

        Returns:
            None if there is no part, or what was kept already is more.
        """
        partial = PartialTrial.of(self.folder / CELLS, trial_id)
        if partial.read() is None:
            return None
        unjoined: DiskError | None = None
        try:
            with _errors_of_a_run(partial.folder):
                for name, source in logs.items():
                    _copy_end(source, partial.folder / name)
                record = adopt(partial, why, failure)
        except DiskError as error:
            record, unjoined = leave(partial, why, failure), error
        return None if record is None else KeptParts(record, unjoined)

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._lock)


@contextmanager
def disk_errors(path: Path, when_full: str = "free some space, and do it again") -> Iterator[None]:
    """Say in one sentence that ``path`` could not be written.

    Args:
        path: What is written.
        when_full: The hint where the disk is full.

    Raises:
        DiskError: In place of any ``OSError``.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "check that it is writable, or choose another folder"
        if error.errno in DISK_FULL:
            hint = when_full
        raise DiskError(f"{path} cannot be written: {reason}", hint=hint) from error


def _errors_of_a_run(path: Path) -> AbstractContextManager[None]:
    return disk_errors(path, DISK_FULL_HINT)


def new_run_id(created_at: str, campaign_name: str) -> str:
    """Give a name that sorts by time and never repeats: ``20261121T195500Z-quick-3f2a``."""
    return f"{created_at}-{campaign_name}-{token_hex(2)}"


def _write_surroundings(tables: Tables, folder: Path, record: TrialRecord, outcome: TrialOutcome) -> None:
    # pyarrow takes 0.3 s to load; here that costs no time before the first cell.
    from stealtime.store.surroundings import write_neighbours, write_trace

    for stream, tracing, name in (
        (tables.host_trace, record.host_tracing, HOST_TRACE),
        (tables.machine_trace, outcome.tracing, MACHINE_TRACE),
    ):
        if stream is not None and tracing is not None:
            write_trace(stream, folder / name, tracing)
    if tables.neighbours:
        write_neighbours(tables.neighbours, folder / NEIGHBOURS)


def _count(trial: Trial) -> None:
    """Make the tables that travel; what hinders that costs no trial, since they can be made later, too."""
    from stealtime.store.travelling import has_counts, write_travelling

    if has_counts(trial):
        try:
            write_travelling(trial, trial.folder)
        except (OSError, StealtimeError):
            for name in (COUNTS, LONGEST, ENVELOPE):
                (trial.folder / name).unlink(missing_ok=True)


def _copy_end(source: Path, target: Path) -> None:
    if not source.is_file():
        return
    with source.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        if size > _COPY_BYTES_MAX:
            reading.seek(size - _COPY_BYTES_MAX)
            writing.write(f"[{size - _COPY_BYTES_MAX} bytes before this were left out]\n".encode())
        shutil.copyfileobj(reading, writing)
