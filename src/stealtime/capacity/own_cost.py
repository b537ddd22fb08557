"""What this program uses itself: whoever watches others tells it."""

import os
import resource

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds() -> float:
    """Give how long this process ran, its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_bytes() -> int:
    """Give how much memory this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a path object costs more than the file
        return int(file.read().split()[1]) * _PAGE_BYTES
