"""Reads a text file that the user wrote and named."""

from pathlib import Path

from stealtime.vocabulary.errors import UsageError


def read_own_text(path: Path, what: str) -> str:
    """Read a file; the mark of byte order that some editors write at its head is no part of it.

    Args:
        path: As the user gave it.
        what: It should be: ``task file``.

    Raises:
        UsageError: It cannot be read, or is no text in UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"the {what} {path} does not exist", hint="check its name") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the {what} {path} is not UTF-8 text: {error.reason}", hint="is it another file?") from None
    except OSError as error:
        raise UsageError(
            f"the {what} {path} cannot be read: {error.strerror}", hint="check its name and rights"
        ) from None
