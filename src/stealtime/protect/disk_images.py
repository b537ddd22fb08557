"""What an image of a disk is: how long the disk in it is, and whether it can be protected.

Who reads a qcow2 header is told by https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst.
"""

import os
import stat
import struct
from pathlib import Path
from typing import Literal, Protocol

ImageFormat = Literal["raw", "qcow2"]

SECTOR_BYTES = 512

_QCOW2 = b"QFI\xfb"
_OTHERS = {b"KDMV": "VMDK", b"vhdxfile": "VHDX", b"conectix": "VPC", b"<<< ": "VDI"}
"""What images of other formats begin with. A raw one may begin with anything else: a boot sector, or zeros."""

_HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
"""Up to the place of the snapshots, which is the whole header of version 2."""
_INCOMPATIBLE = struct.Struct(">Q")
_INCOMPATIBLE_FEATURES = {
    0: "was left open by a program that was killed, or is in use",
    1: "is marked as corrupt",
    2: "has its data in another file",
    3: "is compressed by another method than zlib",
    4: "has extended L2 entries",
}
_MENDED_BY_CHECK = {0, 1}
_LONGEST_BACKING_NAME = 1023


class _Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...
    def fileno(self) -> int: ...


def disk_bytes(path: Path, image_format: ImageFormat) -> int:
    """Give the length of the disk in an image, in bytes.

    Raises:
        ValueError: It is no image of that format that can be protected; why, and what to do, in one sentence.
    """
    try:
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or (stat.S_ISBLK(kind) and image_format == "raw")):
            raise ValueError(f"{path} is no regular file; a disk is an image in a file, or a raw block device")
        with path.open("rb") as file:
            found = _qcow2_bytes(path, file) if image_format == "qcow2" else _raw_bytes(path, file)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if found == 0 or found % SECTOR_BYTES:
        raise ValueError(f"{path} has {found} bytes, which is no whole number of sectors (512 bytes)")
    return found


def _raw_bytes(path: Path, file: _Readable) -> int:
    head = file.read(8)
    if head.startswith(_QCOW2):
        raise ValueError(f'{path} is a qcow2 image; say so with format = "qcow2", or name a raw one')
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            raise ValueError(
                f"{path} is a {name} image; raw ones and qcow2 are protected: "
                f"`qemu-img convert -O qcow2 {path} {path.with_suffix('.qcow2')}`"
            )
    # The length of a device is not in what stat(2) says of it.
    return os.lseek(file.fileno(), 0, os.SEEK_END)


def _qcow2_bytes(path: Path, file: _Readable) -> int:
    head = file.read(_HEADER.size + _INCOMPATIBLE.size)
    if len(head) < _HEADER.size or not head.startswith(_QCOW2):
        raise ValueError(f"{path} is no qcow2 image; a raw one needs no format")
    _, version, backing_at, backing_bytes, _, size, crypt_method, *_, snapshots, _ = _HEADER.unpack_from(head)
    if version not in (2, 3):
        raise ValueError(f"{path} is a qcow2 image of version {version}; 2 and 3 are known")
    if backing_at:
        file.seek(backing_at)
        backing = os.fsdecode(file.read(min(backing_bytes, _LONGEST_BACKING_NAME)))
        raise ValueError(
            f"{path} has the backing file {backing!r}; a disk is one image: "
            f"`qemu-img convert -O qcow2 {path} {path.with_suffix('.alone.qcow2')}`"
        )
    if crypt_method:
        raise ValueError(f"{path} is encrypted; a disk is encrypted by its guest, or not")
    if snapshots:
        raise ValueError(
            f"{path} has {snapshots} internal snapshots, which would stay behind when the machine moves: "
            f"`qemu-img snapshot -l {path}` lists them, and `-d NAME` removes one"
        )
    features = _INCOMPATIBLE.unpack_from(head, _HEADER.size)[0] if version == 3 else 0
    for bit in range(features.bit_length()):
        if features >> bit & 1:
            why = _INCOMPATIBLE_FEATURES.get(bit, f"has a feature that is not known (bit {bit})")
            mend = (
                f"qemu-img check -r all {path}"
                if bit in _MENDED_BY_CHECK
                else f"qemu-img convert -O qcow2 {path} {path.with_suffix('.plain.qcow2')}"
            )
            raise ValueError(f"{path} {why}: `{mend}`")
    return int(size)
