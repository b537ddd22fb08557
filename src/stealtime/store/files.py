"""Files and folders that are on the disk when a function returns, and their removal."""

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
    """Wait until the disk has a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, as far as that can be."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
