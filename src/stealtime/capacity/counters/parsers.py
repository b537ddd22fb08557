"""Parsers of the kernel's counters: bytes of a file in, numbers out; pure.

Formats and since when: proc_stat(5), Documentation/scheduler/sched-stats.rst, Documentation/accounting/psi.rst. What a
kernel does not have is missing from the result, never 0.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

CPU_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
"""Of a line ``cpuN`` of ``/proc/stat``, in clock ticks. ``steal`` came with Linux 2.6.11, ``guest`` with 2.6.24,
``guest_nice`` with 2.6.33; older kernels have shorter lines."""

_FEWEST_COLUMNS = CPU_COLUMNS.index("idle") + 1
"""Of a line that says anything: all kernels have these."""
_IOCTL = b"16"
"""On x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)."""
_KVM_RUN = b"0xae80"
"""``_IO(KVMIO, 0x80)`` (include/uapi/linux/kvm.h)."""


class ThreadCounts(NamedTuple):
    """One thread's ``schedstat``: all three count up since the thread began."""

    run_ns: int
    """On a CPU; brought up to date at the timer tick, so exact to some ms."""
    wait_ns: int
    """Runnable, but on no CPU (``run_delay``); a wait is added when it ends."""
    dispatches: int
    """How often it was put on a CPU (``pcount``, called timeslices)."""


NOTHING_YET = ThreadCounts(0, 0, 0)
"""Of a thread that begins."""


def parse_cpu_rows(text: bytes) -> dict[int, tuple[int, ...]]:
    """Read the lines ``cpuN`` of ``/proc/stat``.

    Returns:
        Ticks in the order of ``CPU_COLUMNS``, as many as the kernel has, by CPU; CPUs that are offline have no line.
    """
    rows: dict[int, tuple[int, ...]] = {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            if rows:
                break  # they stand at the top, and `intr` behind them is long
            continue
        name, *numbers = line.split()
        if name != b"cpu" and len(numbers) >= _FEWEST_COLUMNS:
            rows[int(name[3:])] = tuple(map(int, numbers[: len(CPU_COLUMNS)]))
    return rows


def parse_number_after(text: bytes, key: bytes) -> int | None:
    """Read the number of a line ``key NUMBER``, such as ``procs_running 3``; None if there is no such line."""
    # Taking the text apart line by line takes ten times as long, and this is read every second.
    found = re.search(rb"^" + re.escape(key) + rb":?[ \t]+(\d+)", text, re.MULTILINE)
    return None if found is None else int(found[1])


def parse_schedstat(text: bytes) -> ThreadCounts | None:
    """Read ``/proc/PID/task/TID/schedstat``; None if it is no such file.

    All kernels since 2.6.23 write nanoseconds there; the jiffies of the documentation are those of ``/proc/schedstat``
    before version 16, another file.
    """
    try:
        # As many fields as there are names, or a TypeError; it is hot.
        return ThreadCounts._make(map(int, text.split()))
    except (TypeError, ValueError):
        return None


def parse_pressure(text: bytes) -> dict[str, int]:
    """Read a PSI file: the total of ``some`` and of ``full``, in us since boot.

    Before Linux 5.13 ``cpu`` has no ``full``; ``irq`` (since 6.1) has no ``some``.

    Raises:
        ValueError: A line is not of that form.
    """
    totals: dict[str, int] = {}
    for line in text.decode("ascii", "replace").splitlines():
        kind, _, fields = line.partition(" ")
        values: Mapping[str, str] = dict(field.split("=", 1) for field in fields.split() if "=" in field)
        if "total" not in values:
            raise ValueError(f"{line!r} has no total")
        totals[kind] = int(values["total"])
    return totals


def parse_memory(text: bytes) -> tuple[int, int] | None:
    """Read ``MemTotal`` and ``MemAvailable`` of ``/proc/meminfo``, in bytes.

    Returns:
        None where there is no ``MemAvailable`` (before Linux 3.14).
    """
    total, available = (parse_number_after(text, key) for key in (b"MemTotal", b"MemAvailable"))
    return None if total is None or available is None else (total << 10, available << 10)


def parse_runs_guest(syscall: bytes) -> bool:
    """Tell from a thread's ``syscall`` whether it waits inside KVM for its guest: ``ioctl(..., KVM_RUN)``.

    A virtual CPU that the guest has not started yet does, and has no time of a guest. One that runs is ``running``.
    Threads that KVM itself makes in the process (``kvm-nx-lpage-re``) show the call of whom they were copied from, but
    have no stack and no place in a program.
    """
    fields = syscall.split()
    return len(fields) > 2 and fields[0] == _IOCTL and fields[2] == _KVM_RUN and fields[-1] != b"0x0"
