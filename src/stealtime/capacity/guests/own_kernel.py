"""Reads what a guest's own kernel says: bytes of its files in, its view out; pure."""

from stealtime.capacity.counters.parsers import parse_cpu_rows, parse_number_after, parse_pressure
from stealtime.capacity.sample import GuestView
from stealtime.vocabulary.readings import Absent

_LARGEST_COUNT = (1 << 64) - 1
"""Of a counter of the kernel."""


def read_view(text: bytes) -> GuestView:
    """Read a guest's ``/proc/stat``, with or without its ``/proc/pressure/cpu`` and ``/proc/vmstat`` behind it.

    Raises:
        ValueError: It is not that.
    """
    start = text.find(b"some avg10=")
    swapped = parse_number_after(text, b"pswpin")
    vmstat = text.find(b"\nnr_free_pages ") + 1 or len(text)
    stat, pressure = (text[:vmstat], b"") if start < 0 else (text[:start], text[start:vmstat])
    rows = parse_cpu_rows(stat)
    running = parse_number_after(stat, b"procs_running")
    if not rows or running is None:
        raise ValueError("what it said is no /proc/stat")
    # Whoever has the guest can have it say anything; figures are made of it.
    if max(running, swapped or 0, *(ticks for row in rows.values() for ticks in row)) > _LARGEST_COUNT:
        raise ValueError("it told a count that no kernel has")
    total_us: int | Absent = Absent(absent="its kernel has no pressure counters (psi=1)")
    if pressure:
        total_us = min(parse_pressure(pressure)["some"], _LARGEST_COUNT)
    swapped_in = Absent(absent="its kernel counts no swapping") if swapped is None else swapped
    return GuestView(running, len(rows), rows, total_us, swapped_in)
