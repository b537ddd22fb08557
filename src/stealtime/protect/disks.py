"""The disks of a protected machine: raw images, each on every host.

A host keeps the images of received machines in a folder of its own, as ``VM/DISK.raw``. Where a machine is started from
an image elsewhere, a link of that name leads to it: so the machine finds its own image when it comes back.
"""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, field_validator

from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.toml_table import Table

DISK_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,19}$"
"""As ``crates/capture/src/machine.rs`` takes it; the guest sees it as the disk's serial number."""

MOST_DISKS = 8
SECTOR_BYTES = 512

_FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "VMDK", b"vhdxfile": "VHDX", b"conectix": "VPC", b"<<< ": "VDI"}
"""What images of other formats begin with. A raw one may begin with anything else: a boot sector, or zeros."""

_ROOT_FOLDER = Path("/var/lib/stealtime/disks")
_ROOT_STATE = Path("/run/stealtime/protect")


class Disk(Table):
    """A disk of the machine, in the order in which the guest finds them: ``/dev/vda`` is the first."""

    name: str = Field(pattern=DISK_NAME)
    """The disk's name, also its serial number in the guest (``/dev/disk/by-id/virtio-NAME``)."""
    path: Path
    """The raw image on this host. Other hosts get their own, which is made and copied there."""

    @field_validator("path")
    @classmethod
    def _is_raw(cls, path: Path) -> Path:
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{path} is no regular file; a disk is a raw image in a file")
            with path.open("rb") as file:
                head = file.read(8)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        for magic, name in _FORMATS.items():
            if head.startswith(magic):
                raise ValueError(
                    f"{path} is a {name} image; only raw ones are protected: "
                    f"`qemu-img convert -O raw {path} {path.with_suffix('.raw')}`"
                )
        if found.st_size == 0 or found.st_size % SECTOR_BYTES:
            raise ValueError(f"{path} has {found.st_size} bytes, which is no whole number of sectors (512 bytes)")
        return path

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size


def default_folder(state: Path, host: str) -> Path:
    """Say where a host keeps the images of received machines: they outlive a reboot, unlike its members' state."""
    if state == _ROOT_STATE:
        return _ROOT_FOLDER / host
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and state == Path(runtime) / "stealtime" / "protect":
        from platformdirs import user_data_path

        return user_data_path("stealtime") / "disks" / host
    return state / ".disks" / host


def keep_links(host_config: Path, fallback: Path, vm: str, disks: Iterable[tuple[str, Path]]) -> None:
    """Have a host find the images of its own machine when that comes back from another one.

    Args:
        host_config: What the daemon of the host was told (``host.json``), if there is one.
        fallback: The folder for images where that says nothing.
        vm: The machine's name.
        disks: The name and the image of each disk.

    Raises:
        UsageError: The host has another image of that machine.
        StealtimeError: A link cannot be made.
    """
    folder = _folder_of(host_config) or fallback
    for name, image in disks:
        link = folder / vm / f"{name}.raw"
        if link.resolve() == image.resolve():
            continue
        if link.exists() and not link.is_symlink():
            raise UsageError(
                f"{link} is an image of the disk {name!r} of {vm!r}, too, which came from another host",
                hint=f"start the machine from it (path = {str(link)!r}), or move it away",
            )
        try:
            link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            link.unlink(missing_ok=True)
            link.symlink_to(image.resolve())
        except OSError as error:
            raise StealtimeError(
                f"{link} cannot be made: {error.strerror}", hint="it leads to the machine's image when it comes back"
            ) from error


def _folder_of(host_config: Path) -> Path | None:
    try:
        told = json.loads(host_config.read_text())["disks"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if told is None else Path(told)
