"""Whether the machine below takes back memory that nobody touches for a while.

A hypervisor that unmaps resting pages makes the next touch wait for it, and no kernel inside counts that: no page
fault, no steal time, no event. So it lies in every figure, wherever cold code or data happen to be met.
"""

import mmap
import time

PAGES = 8_192
REST_S = 0.5
STALLED_NS = 50_000
"""A touch of a mapped page takes 0.1 us, with the clock."""
TAKEN_BACK_SHARE = 0.01
"""Where it is taken back, 6 % of the pages were after half a second, and 18 % after one; elsewhere an interrupt or two
meets a touch."""


def is_taken_back() -> bool:
    """Tell whether a good part of the resting pages is gone."""
    return _stalled_share() > TAKEN_BACK_SHARE


def _stalled_share() -> float:
    """Give the share of pages, all touched before, whose touch after a rest takes longer than any memory does."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        offsets = range(0, len(memory), mmap.PAGESIZE)
        for offset in offsets:
            memory[offset] = 1
        _touch(memory, offsets)
        time.sleep(REST_S)
        took_ns = _touch(memory, offsets)
    return sum(one > STALLED_NS for one in took_ns) / PAGES


def _touch(memory: mmap.mmap, offsets: range) -> list[int]:
    took_ns = []
    for offset in offsets:
        begun_ns = time.monotonic_ns()
        memory[offset] = 2
        took_ns.append(time.monotonic_ns() - begun_ns)
    return took_ns
