"""Trials that their writer left in parts, because it was killed or its disk is full: they were cut short.

The parts are joined by the next that looks. Where that cannot be, because the disk is full or because who looks may not
write the run, they are read as they are.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from stealtime.store.cutting import marked
from stealtime.store.documents import CELLS, PARTIAL_PREFIX
from stealtime.store.files import remove
from stealtime.store.lock import is_being_written, take_lock
from stealtime.store.model import Failure, TrialRecord
from stealtime.store.partial import PartialTrial
from stealtime.store.placing import makes_way, place, replaces
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.findings import Finding

KILLED = "what measured it ended without a word"
IN_PARTS = "in_parts"
"""The code of the finding."""


@dataclass(frozen=True)
class LeftInParts:
    """A trial whose parts were not joined."""

    folder: Path
    record: TrialRecord
    """Marked as cut short."""
    parts: int
    """Of each of its tables."""


def adopt_parts(folder: Path) -> str | None:
    """Take in what was measured of the trials of a run that nobody writes any more.

    Returns:
        Why the parts of some could not be joined; None if there are none left.
    """
    if not _waiting(folder):
        return None
    try:
        lock = take_lock(folder)
    except UsageError:
        # A living process writes it, and will see to it.
        return None
    except OSError as error:
        return _reason(error)
    why = None
    try:
        for partial in _waiting(folder):
            try:
                adopt(partial, KILLED)
            except OSError as error:
                why = _reason(error)
    finally:
        os.close(lock)
    return why


def left_in_parts(folder: Path, why: str | None = None) -> list[LeftInParts]:
    """Give the trials of a run that wait for their parts to be joined; none where a living process writes the run.

    Args:
        folder: Of the run.
        why: They could not be joined, where that was tried.
    """
    waiting = _waiting(folder)
    if not waiting or is_being_written(folder):
        return []
    left = []
    for partial in waiting:
        stored = partial.read()
        if stored is None:
            continue
        record = _ended(stored.record, KILLED, None)
        if replaces(record, partial.folder.parent / record.trial_id):
            left.append(LeftInParts(partial.folder, _told(record, stored.parts, why), stored.parts))
    return left


def adopt_waiting(folder: Path) -> None:
    """Take in the parts that are there; whoever calls this holds the run's lock.

    Raises:
        OSError: The disk is full or the like; the parts stay.
    """
    for partial in _waiting(folder):
        adopt(partial, KILLED)


def adopt(partial: PartialTrial, why: str, failure: Failure | None = None) -> TrialRecord | None:
    """Make a trial that was cut short of its parts.

    Args:
        partial: Its folder, which is gone afterwards.
        why: What ended it, unless that is written there: a part of a sentence.
        failure: The same at length, where it was no wish.

    Returns:
        Its record; None if no part can be used, or what is there already is more.

    Raises:
        OSError: The disk is full or the like; the parts stay.
    """
    stored = partial.read()
    if stored is None:
        return None
    record = _ended(stored.record, why, failure)
    if not makes_way(partial.folder.parent / record.trial_id, record):
        remove(partial.folder)
        return None
    try:
        partial.adopt(record)
    except StealtimeError:
        # A part is damaged, and nothing says how far the others reach.
        return None
    except OSError:
        # Half a table would take the room that there is.
        partial.leave(record)
        raise
    partial.drop_parts()
    place(partial.folder, record)
    return record


def leave(partial: PartialTrial, why: str, failure: Failure | None = None) -> TrialRecord | None:
    """Give the record of a trial whose parts could not be joined; they stay, and say what ended it if there is room.

    Args:
        partial: Its folder.
        why: As of :func:`adopt`.
        failure: Likewise.

    Returns:
        None if no part can be used, or what is there already is more.
    """
    stored = partial.read()
    if stored is None:
        return None
    record = _ended(stored.record, why, failure)
    partial.leave(record)
    return record if replaces(record, partial.folder.parent / record.trial_id) else None


def _ended(record: TrialRecord, why: str, failure: Failure | None) -> TrialRecord:
    if record.state == "cut_short":
        return record
    return marked(record, why).model_copy(update={"failure": failure})


def _told(record: TrialRecord, parts: int, why: str | None) -> TrialRecord:
    if record.outcome is None:
        return record
    because = "" if why is None else f": {why}"
    finding = Finding(
        code=IN_PARTS,
        level="limits",
        text=f"it lies on the disk in {parts} {'part' if parts == 1 else 'parts'}, which could not be joined{because}",
        hint="free some space, if the disk is full; who may write the run joins them with `stealtime show`",
    )
    outcome = record.outcome.model_copy(update={"findings": [*record.outcome.findings, finding]})
    return record.model_copy(update={"outcome": outcome})


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _waiting(folder: Path) -> list[PartialTrial]:
    try:
        found = sorted((folder / CELLS).glob(f"{PARTIAL_PREFIX}*"))
    except OSError:
        return []
    partials = (PartialTrial(path) for path in found if path.is_dir())
    return [partial for partial in partials if partial.read() is not None]
