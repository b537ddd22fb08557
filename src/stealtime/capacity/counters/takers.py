"""Who else used CPUs meanwhile: every process of the host that is no guest, by name.

A process's time is read at the beginning and at the end (``stat``, fields 14 and 15, clock ticks of all its threads,
also of those that have ended). One that began and ended in between is not seen: its time stays without a name.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.vocabulary.cpu_lists import parse_cpu_list

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _START = 11, 12, 19
"""Fields 14, 15 and 22 of proc_pid_stat(5), counted behind the name."""
_LEAST_CPUS = 0.01
"""What used less is not told."""


@dataclass(frozen=True)
class Taker:
    """A process that is no guest."""

    name: str
    pid: int
    used_cpus: float
    """CPU time over time."""
    allowed_cpus: frozenset[int]
    """Where it may run; empty where the kernel does not tell."""


Times = Mapping[tuple[int, int], tuple[str, int]]
"""By process and when it began: its name, and its ticks."""


def read_times(proc: Path = Path("/proc")) -> Times:
    """Read the CPU time of every process; it takes some 20 us for each."""
    times: dict[tuple[int, int], tuple[str, int]] = {}
    for name in os.listdir(proc):  # noqa: PTH208 - half of the cost
        if not name.isdigit():
            continue
        try:
            text = (proc / name / "stat").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        if len(fields) > _START:
            ticks = int(fields[_UTIME]) + int(fields[_STIME])
            times[int(name), int(fields[_START])] = head.partition(b"(")[2].decode("utf-8", "replace"), ticks
    return times


def takers_between(
    before: Times, after: Times, elapsed_s: float, guests: Collection[int], proc: Path = Path("/proc")
) -> list[Taker]:
    """Give who used CPUs between two readings, the most first.

    Args:
        before: The first reading.
        after: The last one.
        elapsed_s: Between the two.
        guests: The processes of guests, which are told apart.
        proc: Where it is looked up where a process may run.
    """
    found = []
    for (pid, start), (name, ticks) in after.items():
        # One that was not there before has used all its time since.
        used_cpus = (ticks - before.get((pid, start), (name, 0))[1]) / _TICKS_PER_S / elapsed_s
        if used_cpus >= _LEAST_CPUS and pid not in guests:
            found.append(Taker(name, pid, used_cpus, _allowed(proc, pid)))
    return sorted(found, key=lambda one: -one.used_cpus)


def _allowed(proc: Path, pid: int) -> frozenset[int]:
    try:
        for line in (proc / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return frozenset(parse_cpu_list(line.partition(":")[2]))
    except OSError:
        pass  # it has ended
    return frozenset()
