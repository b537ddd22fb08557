"""Which CPUs of a host may be used.

An affinity that was inherited is no limit: it may be a deliberate ``taskset``, but after ``isolcpus=`` every process
starts confined to the other CPUs, and may still ask for the isolated ones. What the kernel grants is what it keeps of a
request for all CPUs (``sched_setaffinity(2)``): the cpuset. So a CPU that is *named* may be any that is granted; the
*default* comes from the isolated ones, else from those inherited. The agent alone chooses alike
(``crates/probe/src/processor_sets.rs``).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stealtime.vocabulary.cpu_lists import format_cpus, parse_cpu_list

CPU_FOLDER = Path("/sys/devices/system/cpu")

MOST_CPUS = 8192
"""The kernel's own limit for x86-64 (``NR_CPUS``, ``CONFIG_MAXSMP``)."""


@dataclass(frozen=True)
class CpuSets:
    """What is known of the CPUs of a process on some host; each in order."""

    inherited: tuple[int, ...]
    """Its affinity."""
    granted: tuple[int, ...]
    """What the kernel would let it have: each of these may be named."""
    isolated: tuple[int, ...] = ()
    """Of those granted: the kernel's scheduler puts nothing there of its own accord (``isolcpus=domain``)."""
    tickless: tuple[int, ...] = ()
    """Of those granted: the kernel's tick stops there (``nohz_full=``)."""

    @property
    def preferred(self) -> tuple[int, ...]:
        """Those that the measured CPU is taken from, unless one was named."""
        inherited = tuple(cpu for cpu in self.kept_free if cpu in self.inherited)
        if inherited or not self.is_confined_by_the_kernel:
            return inherited or self.inherited
        return self.kept_free

    @property
    def kept_free(self) -> tuple[int, ...]:
        """Those that the kernel spares: the isolated ones, else those without a tick."""
        return self.isolated or self.tickless

    @property
    def usable(self) -> tuple[int, ...]:
        """Those that a scenario means by "all": what was inherited, and what is measured by default."""
        return tuple(sorted({*self.inherited, *self.preferred}))

    @property
    def is_confined_by_the_kernel(self) -> bool:
        """Whether every process starts like this one: on all CPUs but the isolated ones."""
        return bool(self.isolated) and self.inherited == tuple(cpu for cpu in self.granted if cpu not in self.isolated)

    @property
    def remark(self) -> str | None:
        """Say that a process was started on fewer CPUs than it may have; None if it was not."""
        if self.inherited == self.granted:
            return None
        if self.is_confined_by_the_kernel:
            return f"the kernel keeps CPU {format_cpus(self.isolated)} free (isolcpus): it is measured by default"
        return (
            f"started on CPU {format_cpus(self.inherited)} alone (taskset?), though the kernel grants CPU "
            f"{format_cpus(self.granted)}: only a CPU that is named is taken from the others"
        )


def read_cpu_sets(folder: Path = CPU_FOLDER) -> CpuSets:
    inherited = tuple(sorted(os.sched_getaffinity(0)))
    granted = granted_cpus() or inherited
    return CpuSets(inherited, granted, _listed(folder / "isolated", granted), _listed(folder / "nohz_full", granted))


def online_cpus(folder: Path = CPU_FOLDER) -> frozenset[int]:
    """Give the CPUs of this host that are online, whether or not this process may use them."""
    try:
        return frozenset(parse_cpu_list((folder / "online").read_text().strip()))
    except (OSError, ValueError):
        return frozenset(range(os.cpu_count() or 1))


def granted_cpus() -> tuple[int, ...]:
    """Give what the kernel keeps of a request for every CPU; none if it refuses the request, as a sandbox may."""
    with ThreadPoolExecutor(max_workers=1) as short_lived:
        return short_lived.submit(_ask_for_all).result()


def _ask_for_all() -> tuple[int, ...]:
    try:
        # Of this thread, which ends with it: Linux keeps an affinity for each.
        os.sched_setaffinity(0, range(MOST_CPUS))
        return tuple(sorted(os.sched_getaffinity(0)))
    except OSError:
        return ()


def _listed(path: Path, granted: tuple[int, ...]) -> tuple[int, ...]:
    """Read a list of the kernel's; ``(null)`` is what some write where nobody is listed."""
    try:
        listed = parse_cpu_list(path.read_text())
    except (OSError, ValueError):
        return ()
    return tuple(cpu for cpu in listed if cpu in granted)
