"""Writes a page to a file, whole or not at all."""

import os
import tempfile
from pathlib import Path

from stealtime.vocabulary.errors import StealtimeError


def check_place(path: Path) -> None:
    """Raise an error if no file can be at a path.

    Raises:
        StealtimeError: Its folder does not exist or may not be written, or it is a folder itself.
    """
    if not path.parent.is_dir():
        raise StealtimeError(
            f"the folder {path.parent} does not exist", hint="create it, or choose another file with -o"
        )
    if not os.access(path.parent, os.W_OK, effective_ids=True):
        raise StealtimeError(f"the folder {path.parent} may not be written", hint="choose another file with -o")
    if path.is_dir():
        raise StealtimeError(f"{path} is a folder", hint=f"name a file, for example {path / 'report.html'}")


def write_page(path: Path, page: bytes) -> None:
    """Write beside ``path`` and rename, so that one that is interrupted leaves the one before.

    Raises:
        StealtimeError: It cannot be written.
    """
    temporary = None
    try:
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


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
