"""Paths in the files that people write are relative to the file, wherever the program was started."""

from pathlib import Path
from typing import Any

_PEM_FILES = ("ca", "certificate", "key", "revoked")


def with_absolute_paths(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Put ``folder`` before the relative paths of a ``VM.toml`` or ``HOST.toml``."""
    changed = _absolute(document, ("initramfs", "qemu"), folder)
    if isinstance(changed.get("disks"), str):
        changed = _absolute(changed, ("disks",), folder)
    if isinstance(changed.get("images"), list):
        changed["images"] = [str(folder / path) if isinstance(path, str) else path for path in changed["images"]]
    if isinstance(changed.get("disks"), list):
        changed["disks"] = [
            _absolute(disk, ("path",), folder) if isinstance(disk, dict) else disk for disk in changed["disks"]
        ]
    # `kernel` is also a choice of names.
    if "/" in str(changed.get("kernel", "")):
        changed = _absolute(changed, ("kernel",), folder)
    if isinstance(changed.get("identity"), dict):
        changed["identity"] = _absolute(changed["identity"], _PEM_FILES, folder)
    if isinstance(changed.get("register"), dict):
        register = _absolute(changed["register"], ("folder", "password_file"), folder)
        if isinstance(register.get("identity"), dict):
            register["identity"] = _absolute(register["identity"], _PEM_FILES, folder)
        changed["register"] = register
    return changed


def _absolute(table: dict[str, Any], keys: tuple[str, ...], folder: Path) -> dict[str, Any]:
    return {
        key: str(folder / value) if key in keys and isinstance(value, str) else value for key, value in table.items()
    }
