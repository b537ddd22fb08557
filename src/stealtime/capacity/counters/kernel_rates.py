"""What the host's kernel does a second, and KVM of each guest: for charts over time, no rule looks at it.

- Threads that want a CPU: ``procs_running`` of ``/proc/stat``, at that moment, without the one that reads.
- Switches: ``ctxt`` of ``/proc/stat``, of all CPUs.
- Interrupts by kind: ``/proc/interrupts`` of x86. ``LOC`` is the timer of each CPU, ``RES`` wakes another CPU's
  scheduler, ``CAL`` and ``TLB`` have another CPU do something, numbers are devices.
- KVM's counters of a guest in debugfs, for root: all its virtual CPUs together. QEMU's monitor would have to interrupt
  the guest for them, and is held by whoever started it.
- Time in which a virtual CPU executed its guest: field 43 of ``/proc/PID/task/TID/stat``, in clock ticks. What its
  thread ran besides is KVM's, and QEMU's.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stealtime.capacity.counters import monitor
from stealtime.capacity.counters.parsers import parse_number_after
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.lab.platforms import kvm_counters
from stealtime.lab.platforms.host_views import parse_guest_ticks
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.vocabulary.readings import Absent, Reading

Rate = float | Absent

WANTING = "threads_wanting_cpu"
SWITCHES = "context_switches_per_s"
DEVICES = "device_interrupts_per_s"
INTERRUPTS = {
    b"LOC": "timer_interrupts_per_s",
    b"RES": "reschedule_interrupts_per_s",
    b"CAL": "call_interrupts_per_s",
    b"TLB": "tlb_interrupts_per_s",
}
"""By their name in ``/proc/interrupts``; other names are rare."""
KVM_COUNTERS = ("exits", "irq_injections", "irq_window_exits", "hypercalls", "io_exits", "mmio_exits", "halt_exits")
"""Those of a guest that are kept over time."""
EXECUTED = "guest_executed_percent"
"""In which a guest's virtual CPUs executed its instructions: the mean over them."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UNREAD = Absent(absent="it was not read")


class KernelLook(NamedTuple):
    """The kernel's counters at one moment."""

    wanting: int | None
    counts: Mapping[str, int]
    """By the figure that is made of them."""
    absent: Mapping[str, Absent]
    """Of figures that are not to be had."""


class GuestLook(NamedTuple):
    """What KVM counted of one guest."""

    counters: CountersLook | Absent
    executed_ticks: tuple[int, int] | None
    """Of all its virtual CPUs, and how many they are; None where one is not told."""


def parse_interrupts(text: bytes) -> dict[str, int]:
    """Read ``/proc/interrupts``: sums over all CPUs, by figure; devices are those that have a number."""
    sums: dict[str, int] = {}
    header, *lines = text.split(b"\n")
    cpus = len(header.split())
    for line in lines:
        name, _, rest = line.strip().partition(b":")
        figure = DEVICES if name.isdigit() else INTERRUPTS.get(name)
        numbers = rest.split(None, cpus)[:cpus]
        if figure is not None and all(number.isdigit() for number in numbers):
            sums[figure] = sums.get(figure, 0) + sum(map(int, numbers))
    return sums


def read_kernel(proc: Path) -> KernelLook:
    """Read the host's counters once; what cannot be read is absent with its reason."""
    counts: dict[str, int] = {}
    absent: dict[str, Absent] = {}
    wanting = None
    try:
        stat = (proc / "stat").read_bytes()
        running, switches = (parse_number_after(stat, key) for key in (b"procs_running", b"ctxt"))
        wanting = None if running is None else max(0, running - 1)
        if switches is not None:
            counts[SWITCHES] = switches
    except OSError as error:
        absent[SWITCHES] = Absent(absent=f"{proc / 'stat'}: {error.strerror}")
    try:
        counts |= parse_interrupts((proc / "interrupts").read_bytes())
    except OSError as error:
        absent[DEVICES] = Absent(absent=f"{proc / 'interrupts'}: {error.strerror}")
    return KernelLook(wanting, counts, absent)


def host_figures(before: KernelLook, after: KernelLook, elapsed_s: float) -> Iterator[tuple[str, Rate]]:
    """Give what the host's kernel did a second, by figure."""
    yield WANTING, _UNREAD if after.wanting is None else float(after.wanting)
    yield from after.absent.items()
    for name, count in after.counts.items():
        earlier = before.counts.get(name)
        if earlier is not None:
            yield (
                name,
                (count - earlier) / elapsed_s if count >= earlier else Absent(absent=f"{name}: it went backwards"),
            )


def read_guest(guest: Guest, threads: Sequence[GuestThread], proc: Path) -> GuestLook:
    """Read what KVM counts of a guest; nothing of one that does not run under KVM."""
    return GuestLook(monitor.read_debugfs(guest), _executed_ticks(guest, threads, proc))


def guest_figures(before: GuestLook, after: GuestLook, elapsed_s: float) -> Iterator[tuple[str, Rate]]:
    """Give what KVM did a second for a guest, by figure; nothing of one that does not run under KVM."""
    if isinstance(before.counters, Absent) or isinstance(after.counters, Absent):
        return
    total = kvm_counters.between(before.counters, after.counters).total
    for name in KVM_COUNTERS:
        gained = total.get(name)
        if gained is not None:
            yield f"{name}_per_s", _per_s(gained, elapsed_s)
    if before.executed_ticks is not None and after.executed_ticks is not None:
        (first, _), (last, vcpus) = before.executed_ticks, after.executed_ticks
        yield (
            EXECUTED,
            100 * (last - first) / _TICKS_PER_S / elapsed_s / vcpus
            if last >= first
            else Absent(absent="the time in which it executed its guest went backwards"),
        )


def _per_s(gained: Reading, elapsed_s: float) -> Rate:
    if isinstance(gained, Absent):
        return gained
    return gained.value / elapsed_s if isinstance(gained.value, int) else Absent(absent="it is no count")


def _executed_ticks(guest: Guest, threads: Sequence[GuestThread], proc: Path) -> tuple[int, int] | None:
    vcpus = [one.tid for one in threads if one.role == "vcpu"]
    try:
        ticks = [parse_guest_ticks((proc / f"{guest.pid}/task/{tid}/stat").read_bytes()) for tid in vcpus]
    except (OSError, ValueError):
        return None
    known = [one for one in ticks if one is not None]
    return (sum(known), len(known)) if known and len(known) == len(ticks) else None
