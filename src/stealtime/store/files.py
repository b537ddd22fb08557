"""Files and folders that are on the disk when a function returns, and their removal."""

import errno
import os
import shutil
from pathlib import Path


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it.

    Raises:
        OSError: It cannot be written.
    """
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """See that files can be made in a folder, or the folder itself where it is not there yet.

    Raises:
        OSError: They cannot: the right is missing, the disk is read-only, or a file is in the way.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    number = None
    if not there.is_dir():
        number = errno.ENOTDIR
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        number = errno.EROFS
    elif not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        number = errno.EACCES
    if number is not None:
        raise OSError(number, os.strerror(number), str(there))
