"""Copies of a machine's disk images: what is only tried out writes to none of its user's."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stealtime.vocabulary.errors import StealtimeError


def with_copied_disks(machine: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Give a machine, as in ``VM.toml``, whose disks are copies in a folder; it is made, and its owner's to remove.

    A copy has the holes of its image, and shares its blocks where the file system can.

    Raises:
        StealtimeError: There is no room, or an image cannot be read.
    """
    copied = []
    for disk in machine.get("disks", []):
        copy = folder / f"{disk['name']}.{disk.get('format', 'raw')}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = ["cp", "--reflink=auto", "--sparse=always", "--", str(disk["path"]), str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StealtimeError(
                f"the disk {disk['name']!r} cannot be copied: {done.stderr.strip()}",
                hint=f"what is tried out runs on a copy of it, for which {folder} needs room",
            )
        copied.append({**disk, "path": str(copy)})
    return {**machine, "disks": copied} if copied else dict(machine)
