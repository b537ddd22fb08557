"""Tables of a merged run that stayed with the host that measured them, or lie in a store, by the hash of their content.

``elsewhere.json`` beside a trial names each, its length and SHA-256, and where it was: a URL of any file system that
fsspec knows (``file://``, ``s3://``, ``sftp://`` ...). ``$STEALTIME_SAMPLES`` names one more place, in which a file is
called by its hash. Nothing is taken for the file that has another hash.
"""

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError

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
    """``elsewhere.json``."""

    schema_version: int = 1
    host: str
    """Whose they are."""
    files: dict[str, ElsewhereFile]


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


def fetch(folder: Path, name: str) -> None:
    """Get a file of a trial that is elsewhere, and keep it here.

    Raises:
        StealtimeError: None of its places has it, or what they have is another file.
    """
    try:
        stored = Elsewhere.model_validate_json((folder / ELSEWHERE).read_bytes())
    except (OSError, ValidationError) as error:
        raise StealtimeError(f"{folder / ELSEWHERE} is damaged: {error}", hint="merge the runs again") from error
    known = stored.files.get(name)
    if known is None:
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
    for note in run.folder.glob(f"{CELLS}/*/{ELSEWHERE}"):
        try:
            stored = Elsewhere.model_validate_json(note.read_bytes())
        except (OSError, ValidationError):
            return False
        for name, one in stored.files.items():
            places = [Path(unquote(urlsplit(url).path)) for url in one.urls if url.startswith("file://")]
            if not (note.parent / name).is_file() and not any(place.is_file() for place in places):
                return False
    return True


def _file_system(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    files, name = url_to_fs(url)
    return files, name


def _in_words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else " ".join(str(error).split())
