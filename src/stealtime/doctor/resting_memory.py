"""Whether the machine below takes back memory that nobody touches for a while.

A hypervisor that unmaps resting pages makes the next touch wait for it, and no kernel inside counts that: no page
fault, no steal time, no event. So it lies in every figure, wherever cold code or data happen to be met.
"""

import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

PAGES = 8_192
REST_S = 0.5
STALLED_NS = 50_000
"""A touch of a mapped page takes 0.1 us, with the clock."""
TAKEN_BACK_SHARE = 0.01
"""Where memory was taken back, 2 to 8 % of the pages were gone after half a second; elsewhere an interrupt or two meets
a touch."""


@dataclass(frozen=True)
class RestedPages:
    """Touches of pages that had rested.

    Attributes:
        pages: How many.
        took_ns: Of those that took longer than any memory does.
    """

    pages: int
    took_ns: Sequence[int]

    @property
    def stalled_share(self) -> float:
        return len(self.took_ns) / self.pages

    @property
    def median_ns(self) -> int | None:
        """Of those that took long."""
        return round(median(self.took_ns)) if self.took_ns else None

    @property
    def are_taken_back(self) -> bool:
        """Whether a good part of them was gone."""
        return self.stalled_share > TAKEN_BACK_SHARE


def rest_pages(pages: int = PAGES, rest_s: float = REST_S) -> RestedPages:
    """Touch pages, let them rest, and touch each again."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        # A huge page would be touched as one.
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        offsets = range(0, len(memory), mmap.PAGESIZE)
        _touch(memory, offsets)
        # Once more: the way there rests, too.
        _touch(memory, offsets)
        time.sleep(rest_s)
        took_ns = _touch(memory, offsets)
    return RestedPages(pages, [one for one in took_ns if one > STALLED_NS])


def _touch(memory: mmap.mmap, offsets: range) -> list[int]:
    took_ns = []
    for offset in offsets:
        begun_ns = time.monotonic_ns()
        memory[offset] = 1
        took_ns.append(time.monotonic_ns() - begun_ns)
    return took_ns
