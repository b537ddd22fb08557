"""Trials that their writer left in parts, because it was killed: they become trials that were cut short."""

import os
from pathlib import Path

from stealtime.store.cutting import marked
from stealtime.store.documents import CELLS, PARTIAL_PREFIX
from stealtime.store.files import remove
from stealtime.store.lock import take_lock
from stealtime.store.model import Failure, TrialRecord
from stealtime.store.partial import PartialTrial
from stealtime.store.placing import makes_way, place
from stealtime.vocabulary.errors import StealtimeError

KILLED = "what measured it ended without a word"


def adopt_parts(folder: Path) -> None:
    """Take in what was measured of the trials of a run that nobody writes any more.

    A run that cannot be written, or that a living process writes, stays as it is.
    """
    if not _waiting(folder):
        return
    try:
        lock = take_lock(folder)
    except (StealtimeError, OSError):
        return
    try:
        adopt_waiting(folder)
    except OSError:
        # A full disk, for one: they go on waiting.
        pass
    finally:
        os.close(lock)


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
        why: What ended it: a part of a sentence.
        failure: The same at length, where it was no wish.

    Returns:
        Its record; None if no part can be used, or what is there already is more.

    Raises:
        OSError: The disk is full or the like; the parts stay.
    """
    stored = partial.read()
    if stored is None:
        return None
    record = marked(stored.record, why).model_copy(update={"failure": failure})
    if not makes_way(partial.folder.parent / record.trial_id, record):
        remove(partial.folder)
        return None
    try:
        partial.adopt(record)
    except StealtimeError:
        # A part is damaged, and nothing says how far the others reach.
        return None
    partial.drop_parts()
    place(partial.folder, record)
    return record


def _waiting(folder: Path) -> list[PartialTrial]:
    found = (PartialTrial(path) for path in sorted((folder / CELLS).glob(f"{PARTIAL_PREFIX}*")) if path.is_dir())
    return [partial for partial in found if partial.read() is not None]
