"""The disks of a protected machine, as ``VM.toml`` names them."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from stealtime.protect.disk_images import ImageFormat, disk_bytes
from stealtime.vocabulary.toml_table import Table

DISK_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,19}$"
"""As ``crates/capture/src/machine.rs`` takes it; the guest sees it as the disk's serial number."""

MOST_DISKS = 8

DiskBus = Literal["virtio", "scsi"]


class Disk(Table):
    """A disk of the machine, in the order in which the guest finds them."""

    name: str = Field(pattern=DISK_NAME)
    """The disk's name, also its serial number in the guest (``/dev/disk/by-id/*NAME``)."""
    image_format: ImageFormat = Field(default="raw", alias="format")
    """How the image holds the disk. It is never guessed: a guest writes what it likes to the beginning of its disk."""
    path: Path
    """The image on this host, or a block device. Other hosts get their own, which is made and copied there."""
    bus: DiskBus = "virtio"
    """Where the guest finds it: ``virtio`` (virtio-blk: ``/dev/vda``), or ``scsi`` (virtio-scsi: ``/dev/sda``)."""

    @field_validator("path")
    @classmethod
    def _can_be_protected(cls, path: Path, info: ValidationInfo) -> Path:
        if "image_format" in info.data:
            disk_bytes(path, info.data["image_format"])
        return path

    @property
    def size_bytes(self) -> int:
        return disk_bytes(self.path, self.image_format)
