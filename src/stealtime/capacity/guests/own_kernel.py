"""Reads what a guest's own kernel says: bytes of its files in, its view out; pure."""

from stealtime.capacity.counters.parsers import parse_cpu_rows, parse_memory, parse_number_after, parse_pressure
from stealtime.capacity.sample import GuestView
from stealtime.vocabulary.readings import Absent

_LARGEST_COUNT = (1 << 64) - 1
"""Of a counter of the kernel."""


def read_view(text: bytes) -> GuestView:
    """Read a guest's ``/proc/stat``, and what follows of ``/proc/pressure/cpu``, ``/proc/vmstat``, ``/proc/meminfo``.

    Raises:
        ValueError: It is not that.
    """
    start = text.find(b"some avg10=")
    swapped = parse_number_after(text, b"pswpin")
    others = [place for name in (b"\nnr_free_pages ", b"\nMemTotal:") if (place := text.find(name)) >= 0]
    end = min(others, default=len(text) - 1) + 1
    stat, pressure = (text[:end], b"") if start < 0 else (text[:start], text[start:end])
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
    return GuestView(running, len(rows), rows, total_us, swapped_in, _memory_available_percent(text))


def _memory_available_percent(text: bytes) -> float | Absent:
    memory = parse_memory(text)
    if memory is None:
        return Absent(absent="its kernel does not tell how much memory it has left")
    total, available = memory
    if not 0 <= available <= total or total == 0:
        return Absent(absent="it tells that it has more memory left than it has")
    return 100 * available / total
