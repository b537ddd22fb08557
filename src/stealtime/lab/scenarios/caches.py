"""The caches of this host, for a load that must not fit in them."""

import re
from pathlib import Path

CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")

PAPER_BLOCK_BYTES = 9_000_000
"""What the memory load of the Hyper-V paper copies: more than all caches of its host (8 MB in the third level)."""

_SIZE = re.compile(r"(\d+)([KMG]?)")
_UNIT_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_cache_bytes(folder: Path = CACHE_FOLDER) -> int | None:
    """Give the size of the cache of the highest level; None where the kernel does not tell (in some guests)."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level = int((index / "level").read_text())
            size = _SIZE.fullmatch((index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if size is not None:
            found[level] = max(found.get(level, 0), int(size[1]) * _UNIT_BYTES[size[2]])
    return found[max(found)] if found else None


def default_block_bytes(folder: Path = CACHE_FOLDER) -> int:
    """Give what ``memory-load`` copies if nothing else is asked for: twice the last-level cache, at least 9 MB.

    Twice, because the copy and its source are one block each, and a cache that held half of them would hide half of the
    traffic.
    """
    return max(PAPER_BLOCK_BYTES, 2 * (last_level_cache_bytes(folder) or 0))
