"""The last step of writing a trial: its folder gets its name, unless what is there already is more."""

from pathlib import Path

from stealtime.store.documents import PARTIAL_PREFIX, TRIAL, read_document
from stealtime.store.files import remove, sync, sync_folder, write_synced
from stealtime.store.model import TrialRecord
from stealtime.vocabulary.errors import StealtimeError


def place(written: Path, record: TrialRecord) -> Path:
    """Give a folder that holds all of a trial its name, once all of it is on the disk.

    Args:
        written: In the folder of all cells, under a temporary name.
        record: That of its ``trial.json``.

    Raises:
        OSError: It cannot be written.
    """
    cells = written.parent
    final, replaced = cells / record.trial_id, cells / f"{PARTIAL_PREFIX}replaced-{record.trial_id}"
    for path in written.iterdir():
        sync(path)
    sync_folder(written)
    if final.exists():
        # The failed trial, or the part of one, that makes way.
        final.rename(replaced)
    written.rename(final)
    sync_folder(cells)
    remove(replaced)
    return final


def makes_way(cell: Path, record: TrialRecord) -> bool:
    """Tell whether what is in the folder of a cell, if anything, makes way for this trial.

    A part that was kept of a trial that was cut short makes way for the whole trial and for a longer part. A failure is
    written down beside it.

    Raises:
        OSError: It cannot be written.
    """
    kept = _kept_part(cell)
    if kept is None or _is_more(record, kept):
        return True
    if record.failure is not None:
        noted = kept.model_copy(update={"failure": record.failure})
        temporary = cell / f"{PARTIAL_PREFIX}{TRIAL}"
        write_synced(temporary, noted.model_dump_json(indent=2).encode())
        temporary.replace(cell / TRIAL)
        sync_folder(cell)
    return False


def replaces(part: TrialRecord, cell: Path) -> bool:
    """Tell whether a trial that was cut short is more than what is in the folder of its cell, if anything."""
    there = _record_in(cell)
    return there is None or there.state == "failed" or (there.state == "cut_short" and _is_more(part, there))


def _kept_part(cell: Path) -> TrialRecord | None:
    """Give the record of a trial that was cut short, if ``cell`` holds one."""
    record = _record_in(cell)
    return record if record is not None and record.state == "cut_short" else None


def _record_in(cell: Path) -> TrialRecord | None:
    if not (cell / TRIAL).is_file():
        return None
    try:
        return read_document(cell / TRIAL, TrialRecord, "it is replaced")
    except StealtimeError:
        # Nobody can read it: whatever comes is more.
        return None


def _is_more(new: TrialRecord, kept: TrialRecord) -> bool:
    if new.cut_short is None or kept.cut_short is None:
        return new.state == "measured"
    return new.cut_short.watched_s > kept.cut_short.watched_s
