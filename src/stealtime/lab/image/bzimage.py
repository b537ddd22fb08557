"""The x86 bzImage: what release it holds, and the uncompressed ELF kernel inside it.

Layout: Linux ``Documentation/arch/x86/boot.rst`` ("The Real-Mode Kernel Header"); ``payload_offset`` and
``payload_length`` exist from boot protocol 2.08 (Linux 2.6.26). The payload is followed by its uncompressed
size in four bytes for every format but gzip, which has it in its own trailer (``scripts/Makefile.lib``,
``size_append``).
"""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable

from stealtime.vocabulary.errors import StealtimeError

_BOOT_FLAG_OFFSET = 0x1FE
_MAGIC_OFFSET = 0x202
_PROTOCOL_OFFSET = 0x206
_VERSION_POINTER_OFFSET = 0x20E
_PAYLOAD_OFFSET = 0x248
_HEADER_BYTES = 0x250
_SECTOR_BYTES = 512
_PAYLOAD_PROTOCOL = 0x0208
_ELF_MAGIC = b"\x7fELF"
_LZ4_LEGACY_BLOCK_BYTES = 8 << 20
"""The largest block of LZ4's legacy frame format, uncompressed (``lz4_Frame_format.md``, "Legacy frame")."""


class KernelImageError(StealtimeError):
    """A file that is not a usable kernel image."""


def is_bzimage(head: bytes) -> bool:
    """Tell whether a file that begins with ``head`` (at least 0x250 bytes) is a bzImage."""
    return (
        len(head) >= _HEADER_BYTES
        and head[_BOOT_FLAG_OFFSET : _BOOT_FLAG_OFFSET + 2] == b"\x55\xaa"
        and head[_MAGIC_OFFSET : _MAGIC_OFFSET + 4] == b"HdrS"
    )


def read_version_text(image: bytes) -> str:
    """Give the version text of a bzImage: ``6.1.0-56-rt-amd64 (debian-kernel@...) #1 SMP PREEMPT_RT ...``.

    Raises:
        KernelImageError: The image is none or holds no version.
    """
    _check(image)
    (pointer,) = struct.unpack_from("<H", image, _VERSION_POINTER_OFFSET)
    start = pointer + 0x200
    end = image.find(b"\0", start, start + 1024)
    if pointer == 0 or end <= start:
        raise KernelImageError("the bzImage contains no version string")
    return image[start:end].decode("ascii", errors="replace")


def extract_vmlinux(image: bytes) -> bytes:
    """Give the uncompressed ELF kernel inside a bzImage.

    Raises:
        KernelImageError: The image is none, is truncated, is compressed in an unknown way, or holds no ELF file.
    """
    _check(image)
    (protocol,) = struct.unpack_from("<H", image, _PROTOCOL_OFFSET)
    if protocol < _PAYLOAD_PROTOCOL:
        raise KernelImageError(f"the bzImage has boot protocol {protocol:#06x}, older than {_PAYLOAD_PROTOCOL:#06x}")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET)
    start = (setup_sectors + 1) * _SECTOR_BYTES + offset
    payload = image[start : start + length]
    if len(payload) < length or length < 8:
        raise KernelImageError(f"the bzImage is truncated: {len(payload)} of {length} bytes of its payload are there")
    vmlinux = _decompress(payload)
    if not vmlinux.startswith(_ELF_MAGIC):
        raise KernelImageError(f"the payload of the bzImage begins with {vmlinux[:4].hex()}, which is not an ELF file")
    return vmlinux


def _check(image: bytes) -> None:
    if not is_bzimage(image):
        raise KernelImageError(f"a file of {len(image)} bytes that begins with {image[:4].hex()} is not a bzImage")


def _decompress(payload: bytes) -> bytes:
    for magic, (name, decompress) in _FORMATS.items():
        if payload.startswith(magic):
            try:
                return decompress(payload)
            except (lzma.LZMAError, OSError, EOFError, ValueError, zlib.error, struct.error) as error:
                raise KernelImageError(f"the {name} payload of the bzImage is damaged: {error}") from error
    raise KernelImageError(f"the payload of the bzImage begins with {payload[:6].hex()}, an unknown compression")


def _decompress_gzip(payload: bytes) -> bytes:
    return gzip.decompress(payload)


def _decompress_bzip2(payload: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(payload)


def _decompress_xz(payload: bytes) -> bytes:
    return lzma.LZMADecompressor().decompress(payload)


def _decompress_zstd(payload: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(payload)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def _decompress_lz4(payload: bytes) -> bytes:
    import lz4.block  # type: ignore[import-untyped]

    (total_bytes,) = struct.unpack_from("<I", payload, len(payload) - 4)
    blocks: list[bytes] = []
    position = 4
    while position < len(payload) - 4:
        (length,) = struct.unpack_from("<I", payload, position)
        position += 4
        if position + length > len(payload) - 4:
            raise ValueError(f"a block announces {length} bytes, {len(payload) - 4 - position} are there")
        try:
            blocks.append(lz4.block.decompress(payload[position : position + length], _LZ4_LEGACY_BLOCK_BYTES))
        except lz4.block.LZ4BlockError as error:
            raise ValueError(str(error)) from error
        position += length
    vmlinux = b"".join(blocks)
    if len(vmlinux) != total_bytes:
        raise ValueError(f"{len(vmlinux)} of {total_bytes} bytes came out")
    return vmlinux


_FORMATS: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": ("gzip", _decompress_gzip),
    b"BZh": ("bzip2", _decompress_bzip2),
    b"\xfd7zXZ\0": ("xz", _decompress_xz),
    b"\x5d\0\0": ("lzma", _decompress_xz),
    b"\x28\xb5\x2f\xfd": ("zstd", _decompress_zstd),
    b"\x02\x21\x4c\x18": ("LZ4", _decompress_lz4),
}
"""By their first bytes, as in Linux ``lib/decompress.c``; Debian 12's RT kernel is xz, its cloud kernel LZ4."""
