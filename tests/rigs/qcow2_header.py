"""Headers of qcow2 images, also of such as cannot be protected; without the tables that an image needs besides."""

import struct

_BACKING_AT = 112


def qcow2_header(
    *,
    version: int = 3,
    size: int = 1 << 20,
    backing: bytes = b"",
    crypt_method: int = 0,
    snapshots: int = 0,
    incompatible: int = 0,
) -> bytes:
    """Give a header, and the name of a backing file behind it."""
    backing_at = _BACKING_AT if backing else 0
    cluster_bits, table, refcounts = 16, (1, 3 << 16), (1 << 16, 1)
    places = (b"QFI\xfb", version, backing_at, len(backing), cluster_bits, size, crypt_method, *table, *refcounts)
    head = struct.pack(">4sIQIIQIIQQIIQ", *places, snapshots, 0)
    return (head + struct.pack(">Q", incompatible)).ljust(_BACKING_AT, b"\0") + backing
