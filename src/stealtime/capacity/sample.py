"""What was read at one moment: the counters of the host, and of each guest's threads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stealtime.capacity.counters.parsers import ThreadCounts
from stealtime.capacity.counters.quota import Throttled
from stealtime.capacity.counters.topology import UNKNOWN, Topology
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.vocabulary.readings import Absent

_SWAP_UNASKED = Absent(absent="its kernel was not asked how much it has swapped in")
_MEMORY_UNASKED = Absent(absent="its kernel was not asked how much memory it has left")
_SWAP_UNREAD = Absent(absent="how much the host has swapped in was not read")


@dataclass(frozen=True, slots=True)
class GuestView:
    """What a guest's own kernel said at that moment."""

    running: float
    """Threads on its CPUs or waiting for one (``procs_running``), the reader itself among them."""
    vcpus: int
    ticks: Mapping[int, tuple[int, ...]]
    """By its CPU, as ``CPU_COLUMNS``."""
    pressure_us: int | Absent
    """Total of ``some`` of its CPU pressure."""
    swapped_in_pages: int | Absent = _SWAP_UNASKED
    """Since its boot (``pswpin`` of ``/proc/vmstat``)."""
    memory_available_percent: float | Absent = _MEMORY_UNASKED
    """Of its memory (``MemAvailable`` of ``/proc/meminfo``)."""


class ThreadsRead(NamedTuple):
    """Counters of some threads at one moment."""

    at_ns: int
    counts: Mapping[int, ThreadCounts]
    """By thread id; a thread that ended meanwhile has none."""


@dataclass(frozen=True, slots=True)
class ReadTwice:
    """Two consecutive readings of threads that are read less often than they are asked about."""

    first: ThreadsRead
    last: ThreadsRead
    uses: dict[str, ThreadsUse | Absent] = field(default_factory=dict, compare=False)
    """What was made of them already, by the role of the threads."""


class GuestSample(NamedTuple):
    """One guest's counters."""

    guest: Guest
    threads: tuple[GuestThread, ...]
    counts: Mapping[int, ThreadCounts]
    """Of the virtual CPUs, by thread id; a thread that ended meanwhile has none."""
    groups: Mapping[int | str, tuple[int, ...]]
    """The threads of each virtual CPU by its number, then those of each other role by its name."""
    others: ReadTwice | None = None
    """The threads that are no virtual CPU; None before their second reading."""
    unreadable: Absent | None = None
    """Why its counters mean nothing, or its virtual CPUs are unknown."""
    allowed_cpus: frozenset[int] | Absent = Absent(absent="where its virtual CPUs may run was not looked up")
    throttled: Throttled | Absent | None = None
    """None where no quota holds."""
    view: GuestView | Absent | None = None
    """None where it was not asked for."""
    began: frozenset[int] = frozenset()
    """Threads of virtual CPUs that began since the sample before: they count from 0. Any other that was not read then
    has a history of unknown length."""
    starving: frozenset[int] = frozenset()
    """Threads of virtual CPUs that have waited for a CPU since the sample before, and got none."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters at one moment."""

    at_ns: int
    """On CLOCK_MONOTONIC."""
    cpus: Mapping[int, tuple[int, ...]] | Absent
    """Clock ticks as ``CPU_COLUMNS``, by CPU that is online."""
    pressure_us: Mapping[str, Mapping[str, int] | Absent]
    """Totals of ``some`` and ``full``, by resource (``cpu``, ``memory``, ``io``, ``irq``)."""
    memory_bytes: tuple[int, int] | Absent
    """All and available."""
    guests: Mapping[tuple[int, int], GuestSample]
    """By ``Guest.key``."""
    swapped_in_pages: int | Absent = _SWAP_UNREAD
    """Since its boot (``pswpin`` of ``/proc/vmstat``)."""
    topology: Topology = UNKNOWN
    """Its cores and memory nodes."""
