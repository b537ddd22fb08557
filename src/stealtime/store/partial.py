"""A trial that is on the disk in part while it is measured: each checkpoint is whole there, whoever dies meanwhile.

Its folder has the name that a whole trial is written under before it is renamed. In it are the tables of each part, as
Parquet files of their own (one that grows has no footer until it is closed), and a ``checkpoint.json``, which is
replaced as a whole when the tables of a part are on the disk.
"""

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from stealtime.store.documents import PARTIAL_PREFIX, TRIAL, read_document
from stealtime.store.files import remove, sync, sync_folder, write_synced
from stealtime.store.model import TrialRecord
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Model

_CHECKPOINT = "checkpoint.json"
_LAST = "last"
_PART = re.compile(r"\.part-(\d+)\.parquet$")


def part_paths(folder: Path, name: str, count: int) -> list[Path]:
    """Give the Parquet files that a table of a trial in parts is in, in order."""
    return [part_path(folder, name, number) for number in range(1, count + 1)]


def part_path(folder: Path, name: str, number: int | str) -> Path:
    return folder / f"{name}.part-{number}.parquet"


class StoredCheckpoint(Model):
    """``checkpoint.json``."""

    parts: int
    """So many parts have come; their tables are whole."""
    record: TrialRecord
    """What ``trial.json`` will be if nothing more comes."""


class PartialTrial:
    """The folder of a trial that is being measured.

    Args:
        folder: Of the trial; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, cells: Path, trial_id: str) -> "PartialTrial":
        return cls(cells / f"{PARTIAL_PREFIX}{trial_id}")

    def read(self) -> StoredCheckpoint | None:
        """Give the last checkpoint; None if there is none, or it cannot be read."""
        if not (self.folder / _CHECKPOINT).is_file():
            return None
        try:
            return read_document(self.folder / _CHECKPOINT, StoredCheckpoint, "measure it again with --resume")
        except StealtimeError:
            return None

    def append(self, record: TrialRecord, kind: ResultKind, streams: Streams) -> None:
        """Add a part, and have it on the disk.

        Args:
            record: What came of the trial up to the end of this part.
            kind: Of its result.
            streams: The tables of what was measured since the part before.

        Raises:
            StealtimeError: A stream is damaged.
            OSError: The disk is full or the like; the parts before stay.
        """
        self.folder.mkdir(exist_ok=True)
        number = self._count() + 1
        paths = {name: part_path(self.folder, name, number) for name in kind.tables}
        try:
            for name, write in kind.tables.items():
                write(streams, paths[name], record)
                sync(paths[name])
            self._note(StoredCheckpoint(parts=number, record=record))
        except BaseException:
            if self._count() < number:
                # What is torn takes room that others need: the manifest, for one.
                for path in paths.values():
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)
            raise

    def write_tables(self, record: TrialRecord, kind: ResultKind, streams: Streams) -> None:
        """Write the tables of a trial that is over, of its parts and of what came after the last one.

        Raises:
            StealtimeError: A stream or a part is damaged.
            OSError: The disk is full or the like.
        """
        count = self._count()
        for name, write in kind.tables.items():
            target = self.folder / f"{name}.parquet"
            if not count:
                write(streams, target, record)
                continue
            last = part_path(self.folder, name, _LAST)
            write(streams, last, record)
            self._join([*part_paths(self.folder, name, count), last], target)

    def adopt(self, record: TrialRecord) -> None:
        """Make the folder one of a trial that was cut short, of the parts that have come.

        Args:
            record: That of the last checkpoint, with what ended the trial.

        Raises:
            StealtimeError: A part is damaged.
            OSError: The disk is full or the like.
        """
        count = self._count()
        for name in () if record.result is None else record.result.tables:
            self._join(part_paths(self.folder, name, count), self.folder / f"{name}.parquet")
        write_synced(self.folder / TRIAL, record.model_dump_json(indent=2).encode())

    def drop_parts(self) -> None:
        for path in self._leftovers():
            path.unlink()

    def abandon(self) -> None:
        """Remove all but the parts, because the tables could not be made of them; without any, remove all of it."""
        count = self._count()
        if not count:
            remove(self.folder)
            return
        for path in self.folder.iterdir():
            part = _PART.search(path.name)
            if path.name != _CHECKPOINT and (part is None or int(part[1]) > count):
                remove(path)

    def leave(self, record: TrialRecord) -> None:
        """Have the parts stay as they are, with what came of the trial, as far as there is room to write that."""
        self.abandon()
        with contextlib.suppress(OSError):
            self._note(StoredCheckpoint(parts=self._count(), record=record))

    def _count(self) -> int:
        stored = self.read()
        return 0 if stored is None else stored.parts

    def _note(self, checkpoint: StoredCheckpoint) -> None:
        temporary = self.folder / f"{PARTIAL_PREFIX}{_CHECKPOINT}"
        write_synced(temporary, checkpoint.model_dump_json().encode())
        temporary.replace(self.folder / _CHECKPOINT)
        sync_folder(self.folder)

    def _leftovers(self) -> Iterable[Path]:
        yield from list(self.folder.glob("*.part-*.parquet"))
        if (self.folder / _CHECKPOINT).is_file():
            yield self.folder / _CHECKPOINT

    @staticmethod
    def _join(parts: Sequence[Path], target: Path) -> None:
        # pyarrow takes 0.3 s to load; here that costs no time before the first cell.
        from stealtime.store.tables import join_parquet

        join_parquet(parts, target)
