"""Access to ``/proc`` and ``/sys`` below a configurable root, so that tests can present another machine."""

import os
from pathlib import Path

from stealtime.lab.memory import MemoryRoom, read_memory_room
from stealtime.vocabulary.readings import Absent


class Files:
    """Reads absolute paths below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def text(self, path: str) -> str | Absent:
        """Read a file whole, without white space at its ends, or say why it cannot be read."""
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return Absent(absent=f"{path} does not exist")
        except OSError as error:
            return Absent(absent=f"{path} cannot be read: {error.strerror}")

    def number(self, path: str) -> int | Absent:
        """Read a file that holds one whole number, or say why there is none."""
        text = self.text(path)
        if isinstance(text, Absent):
            return text
        try:
            return int(text)
        except ValueError:
            return Absent(absent=f"{path} holds {text!r}, not a number")

    def exists(self, path: str) -> bool:
        return self.path(path).exists()

    def names(self, path: str) -> list[str]:
        """List a folder, sorted; empty if it is not there or must not be read."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError:
            return []

    def matching(self, pattern: str) -> list[str]:
        """List absolute paths that fit ``pattern`` (``*`` within a name), cpu2 before cpu10."""
        found = [f"/{path.relative_to(self._root)}" for path in self._root.glob(pattern.lstrip("/"))]
        return sorted(found, key=lambda path: (len(path), path))

    def writable(self, path: str) -> bool:
        """Whether this user may write there, as far as the permissions tell."""
        return os.access(self.path(path), os.W_OK)

    def memory_room(self) -> MemoryRoom | None:
        """Read how much memory this process may still use; None where nothing says it."""
        return read_memory_room(self._root)

    def path(self, path: str) -> Path:
        """Where an absolute path of the machine is found."""
        return self._root / path.lstrip("/")
