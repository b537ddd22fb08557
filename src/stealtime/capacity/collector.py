"""Reads everything once: the host's CPUs, pressure and memory, and every guest's threads.

What a reading costs is measured by ``benchmarks/capacity_collector.py``. Nothing is started, changed or traced.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from stealtime.capacity.counters.files import KernelFile, OpenFiles
from stealtime.capacity.counters.parsers import parse_cpu_rows, parse_memory, parse_number_after, parse_pressure
from stealtime.capacity.counters.topology import SYSTEM, UNKNOWN, read_topology
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.guests.discovery import Discovery
from stealtime.capacity.guests.tracking import GoneError, TrackedGuest
from stealtime.capacity.sample import GuestSample, GuestView, Sample
from stealtime.lab.platforms.cgroup import CpuHierarchy, find_hierarchy
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent

PRESSURES = ("cpu", "memory", "io", "irq")
PROC = Path("/proc")


class Collector:
    """Reads samples.

    Args:
        proc: The kernel's ``/proc``; another one in tests.
        hierarchy: Where quotas are; None finds it.
        now_ns: The clock.
        system: Where cores and memory nodes are told; None does not ask, as of another machine's ``proc``.
        guest_view: Gives, for a guest, what asks its own kernel; None where it is not to be asked.
    """

    def __init__(
        self,
        proc: Path = PROC,
        *,
        hierarchy: CpuHierarchy | None = None,
        system: Path | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        guest_view: Callable[[Guest], Callable[[], GuestView | Absent]] | None = None,
    ) -> None:
        self._proc = proc
        self._files = OpenFiles()
        self._hierarchy = hierarchy or _find_hierarchy()
        system = SYSTEM if system is None and proc == PROC else system
        self._topology = UNKNOWN if system is None else read_topology(system)
        self._now_ns = now_ns
        self._guest_view = guest_view
        self._discovery = Discovery(proc, self._files)
        self._tracked: dict[tuple[int, int], TrackedGuest] = {}
        self._host_files: dict[str, KernelFile] = {}

    def __enter__(self) -> "Collector":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for tracked in self._tracked.values():
            tracked.close()
        self._tracked.clear()
        self._discovery.close()
        for file in self._host_files.values():
            file.close()
        self._host_files.clear()

    def sample(self) -> Sample:
        at_ns = self._now_ns()
        return Sample(
            at_ns=at_ns,
            cpus=self._cpus(),
            pressure_us={name: self._pressure(name) for name in PRESSURES},
            memory_bytes=self._memory(),
            guests=self._guests(at_ns),
            swapped_in_pages=self._swapped_in(),
            topology=self._topology,
        )

    @property
    def hierarchy(self) -> CpuHierarchy | None:
        """Where CPU groups are; None if there is no cpu controller."""
        return self._hierarchy

    def guests(self) -> dict[tuple[int, int], Guest]:
        """Find the guests that run now, without reading their counters."""
        return self._discovery.find()

    def threads(self) -> dict[tuple[int, int], tuple[Guest, tuple[GuestThread, ...]]]:
        return {key: (tracked.guest, tracked.threads) for key, tracked in self._tracked.items()}

    def _guests(self, at_ns: int) -> dict[tuple[int, int], GuestSample]:
        running = self._discovery.find()
        for key in self._tracked.keys() - running.keys():
            self._tracked.pop(key).close()
        for key, guest in running.items():
            if key not in self._tracked:
                tracked = TrackedGuest(guest, self._proc, self._files, self._hierarchy)
                tracked.helpers = partial(self._discovery.helpers, guest.pid)
                if self._guest_view is not None:
                    tracked.ask_guest = self._guest_view(guest)
                self._tracked[key] = tracked
        samples = {}
        for key, tracked in list(self._tracked.items()):
            try:
                samples[key] = tracked.sample(at_ns)
            except GoneError:
                del self._tracked[key]
                self._discovery.forget(tracked.guest)
        return samples

    def _cpus(self) -> dict[int, tuple[int, ...]] | Absent:
        text = self._read("stat")
        if isinstance(text, Absent):
            return text
        return parse_cpu_rows(text) or Absent(absent=f"{self._proc / 'stat'} has no line of a CPU")

    def _pressure(self, name: str) -> dict[str, int] | Absent:
        text = self._read(f"pressure/{name}")
        if isinstance(text, Absent):
            return text
        try:
            return parse_pressure(text)
        except ValueError as error:
            return Absent(absent=f"{self._proc / 'pressure' / name}: {error}")

    def _memory(self) -> tuple[int, int] | Absent:
        text = self._read("meminfo")
        if isinstance(text, Absent):
            return text
        return parse_memory(text) or Absent(absent=f"{self._proc / 'meminfo'} has no MemAvailable")

    def _swapped_in(self) -> int | Absent:
        text = self._read("vmstat")
        if isinstance(text, Absent):
            return text
        pages = parse_number_after(text, b"pswpin")
        return (
            Absent(absent=f"{self._proc / 'vmstat'} has no pswpin: this kernel has no swap") if pages is None else pages
        )

    def _read(self, name: str) -> bytes | Absent:
        try:
            if (file := self._host_files.get(name)) is None:
                file = self._host_files[name] = self._files.open(self._proc / name)
            return file.read()
        except FileNotFoundError:
            hint = " (boot with psi=1)" if name.startswith("pressure/") and "irq" not in name else ""
            return Absent(absent=f"{self._proc / name} does not exist{hint}")
        except OSError as error:
            hint = " (boot with psi=1)" if name.startswith("pressure/") else ""
            return Absent(absent=f"{self._proc / name} cannot be read: {error.strerror}{hint}")


def hidden_processes(proc: Path = PROC) -> str | None:
    """Say that this user does not see the processes of others (``hidepid``); None if he does."""
    if os.geteuid() == 0:
        return None
    try:
        mounts = (proc / "self/mounts").read_text()
    except OSError:
        return None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] == "proc" and fields[1] == "/proc":
            hidden = next((option for option in fields[3].split(",") if option.startswith("hidepid=")), "hidepid=0")
            if hidden not in ("hidepid=0", "hidepid=off"):
                return f"/proc is mounted with {hidden}: guests of other users are not seen"
    return None


def _find_hierarchy() -> CpuHierarchy | None:
    try:
        return find_hierarchy()
    except (StealtimeError, OSError):
        return None
