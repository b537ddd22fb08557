"""The cache: finished things only, safe for many processes, cheap to trust.

Each entry is a folder with the files and an ``entry.json`` that records size, time of change and SHA-256 of each file
that is relied on. An entry is built under another name and renamed when it is whole. On use, size and time of change
are compared; only where they differ is the content hashed again, and a damaged entry is built anew.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from stealtime.vocabulary.errors import StealtimeError

ENTRY_FILE = "entry.json"


class FileRecord(BaseModel):
    """A file as it was when it was hashed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size_bytes: int
    modified_ns: int
    sha256: str

    def matches(self, path: Path) -> bool:
        """Tell whether the file is still the same; the content is read only if size or time say that it may not be."""
        try:
            status = path.stat()
        except OSError:
            return False
        if status.st_size != self.size_bytes:
            return False
        return status.st_mtime_ns == self.modified_ns or hash_file(path) == self.sha256

    @classmethod
    def of(cls, path: Path) -> "FileRecord":
        status = path.stat()
        return cls(size_bytes=status.st_size, modified_ns=status.st_mtime_ns, sha256=hash_file(path))


class Entry(BaseModel):
    """What ``entry.json`` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: dict[str, FileRecord]
    """By path relative to the entry's folder."""
    facts: dict[str, str] = {}
    """What the builder wants to find again."""


def cache_folder() -> Path:
    """Give ``$XDG_CACHE_HOME/stealtime``, made if need be.

    Raises:
        StealtimeError: It cannot be made.
    """
    folder = platformdirs.user_cache_path("stealtime")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StealtimeError(
            f"cannot make the cache folder {folder}: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder you can write",
        ) from error
    return folder


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_entry(folder: Path) -> Entry | None:
    """Give an entry that is whole and undamaged, else None."""
    try:
        entry = Entry.model_validate_json((folder / ENTRY_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return entry if all(record.matches(folder / name) for name, record in entry.files.items()) else None


def obtain_entry(folder: Path, build: Callable[[Path], tuple[list[str], Mapping[str, str]]]) -> Entry:
    """Give the entry in ``folder``, built first if it is missing or damaged.

    Args:
        folder: Where the entry lives, below ``cache_folder()``.
        build: Fills the empty folder it is given; returns the relative names of the files that are relied on, and
            facts to find again. What it raises leaves no entry behind.
    """
    if (entry := read_entry(folder)) is not None:
        return entry
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(f"{folder.name}.lock")):
        if (entry := read_entry(folder)) is not None:
            return entry
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as temporary:
            partial = Path(temporary) / "entry"
            partial.mkdir()
            names, facts = build(partial)
            entry = Entry(files={name: FileRecord.of(partial / name) for name in names}, facts=dict(facts))
            (partial / ENTRY_FILE).write_text(entry.model_dump_json(indent=1))
            if folder.exists():
                shutil.rmtree(folder)
            partial.rename(folder)
    return entry


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel gives it back if the holder dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: str) -> None:
    """Replace a small file; a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    Path(name).replace(path)


class _HashMemo(BaseModel):
    files: dict[str, FileRecord] = {}


def remembered_hash(path: Path) -> str:
    """Give the SHA-256 of a file outside the cache; hashed once for each size and time of change.

    Raises:
        OSError: The file cannot be read.
    """
    memo_path = cache_folder() / "hashes.json"
    try:
        memo = _HashMemo.model_validate_json(memo_path.read_bytes())
    except (OSError, ValidationError):
        memo = _HashMemo()
    status = path.stat()
    known = memo.files.get(str(path))
    if known is not None and (known.size_bytes, known.modified_ns) == (status.st_size, status.st_mtime_ns):
        return known.sha256
    record = FileRecord.of(path)
    # Two processes may write at once: one memory is then lost and that file hashed again, nothing worse.
    write_atomically(memo_path, _HashMemo(files={**memo.files, str(path): record}).model_dump_json(indent=1))
    return record.sha256
