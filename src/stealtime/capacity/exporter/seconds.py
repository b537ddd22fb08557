"""The counters of virtual CPUs, read each second: totals that only rise, and in how many seconds a guest was crowded.

Who asks four times a minute sees the mean of fifteen seconds. A guest that works for a tenth of each second and waits
as long looks idle in it, so each second is looked at by itself, and the seconds in which it was crowded are counted.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stealtime.capacity.counters.files import KernelFile, OpenFiles
from stealtime.capacity.counters.parsers import ThreadCounts, parse_schedstat
from stealtime.capacity.guest import Guest, GuestThread, Kind

CROWDED_SHARE: Final[Mapping[Kind, float]] = {"qemu": 0.25, "kvm": 0.25, "uml": 0.33}
"""Of the time in which a guest wanted CPUs it waited: the limits of the builtin rules vcpu-wait and vcpu-wait-uml."""
_LEAST_WANTED_NS = 1_000_000
"""In a second in which a guest wanted less than a tick of the finest timer nothing was held up that anybody notices."""
_SCHEDSTAT_BYTES = 96


@dataclass
class VcpuTotals:
    """What one virtual CPU has used since it was first seen."""

    run_ns: int = 0
    wait_ns: float = 0.0
    """For a CPU of the host: without what its own quota took."""
    dispatches: int = 0


@dataclass
class GuestSeconds:
    """One guest."""

    guest: Guest
    vcpus: dict[int, VcpuTotals] = field(default_factory=dict)
    watched_seconds: int = 0
    crowded_seconds: int = 0
    net_share: float = 1.0
    """How much of its waiting is not its quota's."""


class _Thread:
    __slots__ = ("counts", "file", "is_sharing", "text", "total")

    def __init__(self, file: KernelFile, total: VcpuTotals) -> None:
        self.file = file
        self.text = b""
        self.counts: ThreadCounts | None = None
        self.total = total
        self.is_sharing = False
        """Whether it is one of several threads that are one virtual CPU."""


class Seconds:
    """Reads the virtual CPUs of the guests that it is told of.

    Args:
        proc: The kernel's ``/proc``.
        files: Counts the descriptors.
    """

    def __init__(self, proc: str = "/proc", files: OpenFiles | None = None) -> None:
        self._proc = proc
        self._files = files or OpenFiles()
        self._threads: dict[tuple[int, int], dict[int, _Thread]] = {}
        self._last_ns: int | None = None
        self.guests: dict[tuple[int, int], GuestSeconds] = {}
        """By ``Guest.key``; those that have ended are not among them."""

    def follow(self, running: Mapping[tuple[int, int], tuple[Guest, Iterable[GuestThread]]]) -> None:
        """Say which guests run, and which of their threads are virtual CPUs; all others are forgotten."""
        for key in self.guests.keys() - running.keys():
            del self.guests[key]
            for thread in self._threads.pop(key).values():
                thread.file.close()
        for key, (guest, threads) in running.items():
            self._follow_guest(key, guest, {one.tid: one.vcpu for one in threads if one.vcpu is not None})

    def _follow_guest(self, key: tuple[int, int], guest: Guest, vcpus: Mapping[int, int]) -> None:
        known = self._threads.setdefault(key, {})
        totals = self.guests.setdefault(key, GuestSeconds(guest))
        if known.keys() == vcpus.keys():
            return
        for tid in known.keys() - vcpus.keys():
            known.pop(tid).file.close()
        for tid in vcpus.keys() - known.keys():
            # Those of User-Mode Linux are processes of their own.
            process = tid if guest.kind == "uml" else guest.pid
            try:
                file = self._files.open(f"{self._proc}/{process}/task/{tid}/schedstat")
            except OSError:
                continue
            known[tid] = _Thread(file, totals.vcpus.setdefault(vcpus[tid], VcpuTotals()))
        for thread in known.values():
            thread.is_sharing = len(known) > len(totals.vcpus)

    def close(self) -> None:
        self.follow({})

    def read(self, at_ns: int) -> None:
        """Read all once.

        Args:
            at_ns: The moment.
        """
        elapsed_ns = None if self._last_ns is None else at_ns - self._last_ns
        self._last_ns = at_ns
        pread = os.pread
        for key, threads in self._threads.items():
            run_ns = wait_ns = 0
            sharing: VcpuTotals | None = None
            seen = self.guests[key]
            for thread in threads.values():
                descriptor = thread.file.descriptor
                try:
                    text = (
                        thread.file.read_short(_SCHEDSTAT_BYTES)
                        if descriptor is None
                        else pread(descriptor, _SCHEDSTAT_BYTES, 0)
                    )
                except OSError:
                    continue  # it has ended, which is found out when its guest is looked at again
                if text == thread.text:
                    continue
                thread.text = text
                counts = parse_schedstat(text)
                if counts is None:
                    continue
                # What it did before it was seen first is no second's use, nor is a counter that runs backwards.
                before, thread.counts = thread.counts, counts
                if before is None or counts.run_ns < before.run_ns or counts.wait_ns < before.wait_ns:
                    continue
                ran_ns = counts.run_ns - before.run_ns
                run_ns += ran_ns
                waited_ns = counts.wait_ns - before.wait_ns
                wait_ns += waited_ns
                total = thread.total
                total.run_ns += ran_ns
                total.dispatches += counts.dispatches - before.dispatches
                if thread.is_sharing:
                    sharing = total
                else:
                    total.wait_ns += waited_ns * seen.net_share
            seen.watched_seconds += elapsed_ns is not None
            if sharing is not None and elapsed_ns is not None:
                # Processes that are one virtual CPU of User-Mode Linux hand it to each other, which is no wait.
                wait_ns = min(wait_ns, max(0, elapsed_ns - run_ns))
                sharing.wait_ns += wait_ns * seen.net_share
            net_ns = wait_ns * seen.net_share
            if run_ns + net_ns >= _LEAST_WANTED_NS and net_ns > CROWDED_SHARE[seen.guest.kind] * (run_ns + net_ns):
                seen.crowded_seconds += 1
