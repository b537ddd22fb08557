"""Writes a page to a file, whole or not at all."""

import os
import tempfile
from pathlib import Path

from stealtime.vocabulary.errors import StealtimeError, UsageError


def check_place(path: Path) -> None:
    """Raise an error if no file can be at a path.

    Raises:
        UsageError: Its folder does not exist or may not be written, or it is a folder itself.
    """
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist", hint="create it, or choose another file with -o")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=f"name a file, for example {path / 'report.html'}")
    if not os.access(path if _is_no_plain_file(path) else path.parent, os.W_OK, effective_ids=True):
        raise UsageError(f"{path} may not be written", hint="choose another file with -o")


def write_page(path: Path, page: bytes) -> None:
    """Write beside ``path`` and rename, so that one that is interrupted leaves the one before.

    A pipe or a device is written to: a file in its place would take it away from everybody (``-o /dev/null``).

    Raises:
        StealtimeError: It cannot be written.
    """
    temporary = None
    try:
        if _is_no_plain_file(path):
            path.write_bytes(page)
            return
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            temporary = Path(file.name)
            file.write(page)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StealtimeError(f"{path} cannot be written: {reason}", hint="choose another file with -o") from error


def _is_no_plain_file(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
