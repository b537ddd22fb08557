"""Tables of a merged run that stayed with the host that measured them, or lie in a store, by the hash of their content.

``elsewhere.json`` of the run names each, its SHA-256, and where it was: a URL of any file system that fsspec knows
(``file://``, ``s3://``, ``sftp://`` ...). ``$STEALTIME_SAMPLES`` names one more place, in which a file is called by its
hash. Nothing is taken for the file that has another hash.

Merged runs of earlier versions have such a file beside each trial, which took longer to write than what it is about.
"""

import os
import secrets
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError
from pydantic_core import to_json

from stealtime.store.counts import sha256_of
from stealtime.store.documents import CELLS, ELSEWHERE, PARTIAL_PREFIX
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Model

if TYPE_CHECKING:
    from stealtime.store.run import Run

PLACE = "STEALTIME_SAMPLES"
_PIECE = 1 << 20


class ElsewhereFile(Model):
    """One file that is not here."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    urls: list[str]
    """Where it may be, in the order in which they are tried."""


class Elsewhere(Model):
    """What of a trial is elsewhere; ``elsewhere.json`` beside a trial, in runs of earlier versions."""

    schema_version: int = 1
    host: str
    """Whose they are."""
    files: dict[str, ElsewhereFile]


class ElsewhereFiles(Model):
    """``elsewhere.json`` of a merged run."""

    schema_version: int = 2
    trials: dict[str, Elsewhere]
    """By the name of the trial's folder."""


def write_notes(run_folder: Path, notes: dict[str, dict[str, Any]]) -> None:
    """Write what of a merged run's trials is elsewhere; nothing where all is here.

    Args:
        run_folder: The run's.
        notes: By the name of a trial's folder, as :class:`Elsewhere` has it: there are thousands.
    """
    if notes:
        (run_folder / ELSEWHERE).write_bytes(to_json({"schema_version": 2, "trials": notes}))


def note_of(trial_folder: Path) -> Elsewhere | None:
    """Give what of a trial is elsewhere; None where nothing is.

    Raises:
        StealtimeError: The note is damaged.
    """
    own, all_of_run = trial_folder / ELSEWHERE, trial_folder.parent.parent / ELSEWHERE
    try:
        return _own_note(own) if own.is_file() else _notes_of_run(all_of_run).get(trial_folder.name)
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        note = own if own.is_file() else all_of_run
        raise StealtimeError(f"{note} is damaged: {error}", hint="merge the runs again") from error


def _own_note(path: Path) -> Elsewhere:
    return Elsewhere.model_validate_json(path.read_bytes())


def _notes_of_run(path: Path) -> dict[str, Elsewhere]:
    found = path.stat()
    return _notes(str(path), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _notes(path: str, mtime_ns: int, size_bytes: int) -> dict[str, Elsewhere]:
    """Read all notes of a run: who asks for one trial's asks for the others', too."""
    return ElsewhereFiles.model_validate_json(Path(path).read_bytes()).trials


def in_place(place: str, sha256: str) -> str:
    """Give the URL of a file in a place where files are called by their hash."""
    return f"{place.rstrip('/')}/{sha256[:2]}/{sha256}.parquet"


def put(path: Path, sha256: str, place: str) -> str:
    """Put a file into such a place, unless it is there already.

    Returns:
        Its URL.

    Raises:
        StealtimeError: The place cannot be written, or what reaches it is not installed.
    """
    url = in_place(place, sha256)
    try:
        files, name = _file_system(url)
        if not files.exists(name):
            files.makedirs(files._parent(name), exist_ok=True)
            temporary = f"{name}.{secrets.token_hex(4)}"
            files.put_file(str(path), temporary)
            files.mv(temporary, name)
    except (OSError, ImportError, ValueError) as error:
        raise StealtimeError(
            f"{url} cannot be written: {_in_words(error)}",
            hint="name a place that can, or leave the samples with --samples stay",
        ) from error
    return url


def fetch(folder: Path, name: str, stored: Elsewhere | None) -> None:
    """Get a file of a trial that is elsewhere, and keep it here.

    Args:
        folder: Where it is to be.
        name: Its name.
        stored: The trial's note.

    Raises:
        StealtimeError: None of its places has it, or what they have is another file.
    """
    known = None if stored is None else stored.files.get(name)
    if stored is None or known is None:
        raise StealtimeError(f"{folder / name} does not exist", hint="merge the runs again")
    places = [in_place(os.environ[PLACE], known.sha256)] if PLACE in os.environ else []
    reasons = []
    for url in [*places, *known.urls]:
        temporary = folder / f"{PARTIAL_PREFIX}{name}.{secrets.token_hex(4)}"
        try:
            _get(url, temporary)
            if sha256_of(temporary) != known.sha256:
                reasons.append(f"{url} has another content than when it was counted")
                continue
            temporary.replace(folder / name)
        except (OSError, ImportError, ValueError) as error:
            reasons.append(f"{url}: {_in_words(error)}")
        else:
            return
        finally:
            temporary.unlink(missing_ok=True)
    why = "; ".join(reasons) or "no place is known"
    raise StealtimeError(
        f"{name} of {folder.name} stayed with {stored.host} and cannot be had: {why}",
        hint=f"put it into the folder that ${PLACE} names, or see what its counts tell",
    )


def _get(url: str, target: Path) -> None:
    if url.startswith("file://"):
        # What needs no library: most merged runs lie beside those that they were made of.
        shutil.copyfile(unquote(urlsplit(url).path), target)
        return
    files, there = _file_system(url)
    files.get_file(there, str(target))


def samples_at_hand(run: "Run") -> bool:
    """Tell whether all samples of a merged run are in it, or in files of this host: then nothing has to travel."""
    cells = run.folder / CELLS
    try:
        if (run.folder / ELSEWHERE).is_file():
            notes = _notes_of_run(run.folder / ELSEWHERE)
        else:
            notes = {note.parent.name: _own_note(note) for note in cells.glob(f"*/{ELSEWHERE}")}
    except (OSError, ValidationError):
        return False
    return all(
        (cells / trial / name).is_file() or any(map(_is_here, one.urls))
        for trial, stored in notes.items()
        for name, one in stored.files.items()
    )


def _is_here(url: str) -> bool:
    return url.startswith("file://") and Path(unquote(urlsplit(url).path)).is_file()


def _file_system(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    files, name = url_to_fs(url)
    return files, name


def _in_words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else " ".join(str(error).split())
