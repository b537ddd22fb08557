"""KVM's own counters of each virtual CPU: how often its guest was left, and how long it was halted.

KVM counts for each virtual CPU since that was made (Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD, Linux 5.14; what
x86 counts: ``kvm_vcpu_stats_desc`` in arch/x86/kvm/x86.c). QEMU hands the counters out from 7.1 on (``query-stats``,
qapi/stats.json). They only count up, so they are read twice and the difference is taken; one that went down is absent.

Limits:

- A kind of exit that is not in the table is only in ``exits``, and kinds overlap: a page fault can end as an access to
  a device. So kinds do not add up to ``exits``.
- From Linux 5.8 until June 2023 exits that KVM answers at once, such as a write of the timer's deadline, were not
  counted ("KVM: x86: Account fastpath-only VM-Exits in vCPU stats", also in the stable series).
- Before 8.1 QEMU interrupts each virtual CPU to read its counters (QEMU commit 3b6f485275ae), so they are read while
  nothing measures; one of its ``signal_exits`` is from that.
- How long an exit took is not counted, but for polling and waiting; the host's trace has it (``kvm_exit`` to
  ``kvm_entry``).
- Polling and waiting are added when they end: a halt that spans a reading is counted wholly behind it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stealtime.lab.platforms.failure import MachineError
from stealtime.vocabulary.readings import STRICT, Absent, Reading, Value

if TYPE_CHECKING:
    from stealtime.lab.platforms.qemu_monitor import QemuMonitor

QEMU_WITH_COUNTERS = "7.1"
LINUX_WITH_COUNTERS = "5.14"


@dataclass(frozen=True)
class Counter:
    """One of KVM's counters."""

    name: str
    """KVM's name for it; one of time ends in ``_ns``."""
    unit: Literal["times", "ns"]
    meaning: str
    """What one of it is, or what the time was spent on."""
    kind_of_exit: str | None = None
    """Why the guest was left, in a word or two; None for what is no reason to leave it."""


COUNTERS = (
    Counter("exits", "times", "VM exits to KVM, for any reason"),
    Counter("io_exits", "times", "the guest accessed an I/O port", "I/O port"),
    Counter("mmio_exits", "times", "the guest accessed device memory (MMIO) that QEMU emulates", "device memory"),
    Counter("halt_exits", "times", "the vCPU halted: the guest was idle", "halt"),
    Counter("hypercalls", "times", "the guest made a hypercall", "hypercall"),
    Counter(
        "pf_taken",
        "times",
        "the guest touched memory that was not mapped, or mapped differently (page fault)",
        "page fault",
    ),
    Counter("irq_exits", "times", "an interrupt of the host arrived", "host interrupt"),
    Counter("signal_exits", "times", "a signal of the host returned the vCPU to QEMU", "signal"),
    Counter(
        "irq_window_exits", "times", "the guest became able to take an interrupt (interrupt window)", "interrupt window"
    ),
    Counter("request_irq_exits", "times", "the same, requested by QEMU", "QEMU's interrupt window"),
    Counter("nmi_window_exits", "times", "the guest became able to take an NMI (NMI window)", "NMI window"),
    Counter(
        "notify_window_exits", "times", "the guest blocked all events for too long (notify VM exit)", "notify window"
    ),
    Counter("pf_fixed", "times", "a page fault was resolved by mapping a page"),
    Counter("pf_emulate", "times", "a page fault was resolved by emulating the instruction"),
    Counter("insn_emulation", "times", "KVM emulated an instruction of the guest"),
    Counter("irq_injections", "times", "an interrupt was injected into the guest"),
    Counter("nmi_injections", "times", "an NMI was injected into the guest"),
    Counter("tlb_flush", "times", "the guest's TLB was flushed"),
    Counter("l1d_flush", "times", "the first-level data cache was flushed before entering the guest (L1TF)"),
    Counter("host_state_reload", "times", "the host's registers were restored, to leave the vCPU thread"),
    Counter("fpu_reload", "times", "the guest's floating-point registers were saved to load the host's"),
    Counter("preemption_reported", "times", "the thread was preempted, and the guest was informed"),
    Counter("preemption_other", "times", "the thread was preempted, and the guest could not be informed"),
    Counter("halt_attempted_poll", "times", "KVM polled for the end of a halt before it yielded the CPU"),
    Counter("halt_successful_poll", "times", "the halt ended while KVM polled"),
    Counter("halt_poll_invalid", "times", "the poll ended without work for the vCPU"),
    Counter("halt_wakeup", "times", "a vCPU that had yielded its CPU was woken"),
    Counter("halt_poll_success_ns", "ns", "polling until a halt ended"),
    Counter("halt_poll_fail_ns", "ns", "polling in vain"),
    Counter("halt_wait_ns", "ns", "waiting for the end of a halt, with the CPU yielded"),
)
"""Those that are understood; which of them there are is the kernel's affair. Histograms and states are left out."""


@dataclass(frozen=True)
class CountersLook:
    """The counters at one moment, which lies between the question and the answer."""

    asked_monotonic_raw_ns: int
    answered_monotonic_raw_ns: int
    vcpus: Mapping[int, Mapping[str, int]]
    """By virtual CPU, from 0, and by the counter's name."""

    @property
    def took_ns(self) -> int:
        return self.answered_monotonic_raw_ns - self.asked_monotonic_raw_ns


@dataclass(frozen=True)
class CountersGained:
    """What was counted between two looks."""

    __pydantic_config__ = STRICT

    vcpus: tuple[Mapping[str, Reading], ...]
    """By virtual CPU, from 0."""
    total: Mapping[str, Reading]
    """Of all virtual CPUs; absent where it is absent of one."""
    begin_monotonic_raw_ns: int
    """When the first look had been answered ..."""
    end_monotonic_raw_ns: int
    """... and the second was asked for."""
    reading_ns: int
    """How long the longer look took: so far outside of begin and end the counters may have been read."""


async def look(monitor: "QemuMonitor") -> CountersLook | Absent:
    """Read the counters of every virtual CPU; where QEMU has none to give, say why. It raises nothing."""
    question = {
        "target": "vcpu",
        "providers": [{"provider": "kvm", "names": [counter.name for counter in COUNTERS]}],
    }
    try:
        paths = await monitor.vcpu_paths()
        asked_ns = now_ns()
        answer = await monitor.execute("query-stats", question)
        answered_ns = now_ns()
    except MachineError as error:
        return Absent(absent=f"{error.message}; QEMU reports counters from {QEMU_WITH_COUNTERS} on")
    by_path = read_answer(answer)
    if not any(by_path.values()):
        return Absent(absent=f"QEMU gave no counter of KVM; Linux has them from {LINUX_WITH_COUNTERS} on")
    vcpus = {number: by_path[path] for number, path in enumerate(paths) if path in by_path}
    return CountersLook(asked_ns, answered_ns, vcpus)


def now_ns() -> int:
    """Read the clock on which looks are dated: CLOCK_MONOTONIC_RAW."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def read_answer(answer: Any) -> dict[str, dict[str, int]]:
    """Take the counters that are understood from the answer to ``query-stats``.

    Args:
        answer: A list of ``{"provider": ..., "qom-path": ..., "stats": [{"name": ..., "value": ...}]}``; a value may
            be a number, a boolean (a state) or a list (a histogram).

    Returns:
        The counters of each virtual CPU, by its path in QEMU; none of an answer of another shape.
    """
    known = {counter.name for counter in COUNTERS}
    by_path: dict[str, dict[str, int]] = {}
    for one in answer if isinstance(answer, list) else []:
        if not isinstance(one, dict) or one.get("provider") != "kvm" or "qom-path" not in one:
            continue
        by_path[str(one["qom-path"])] = {
            stat["name"]: stat["value"]
            for stat in one.get("stats", [])
            if stat.get("name") in known and type(stat.get("value")) is int
        }
    return by_path


def between(before: CountersLook, after: CountersLook) -> CountersGained:
    """Give the differences between two readings; each is absent with a reason or at least 0."""
    numbers = range(max((*before.vcpus, *after.vcpus), default=-1) + 1)
    vcpus = tuple(_gained(before.vcpus.get(number), after.vcpus.get(number), number) for number in numbers)
    names = [counter.name for counter in COUNTERS if any(counter.name in one for one in vcpus)]
    return CountersGained(
        vcpus=vcpus,
        total={name: _sum(name, vcpus) for name in names},
        begin_monotonic_raw_ns=before.answered_monotonic_raw_ns,
        end_monotonic_raw_ns=after.asked_monotonic_raw_ns,
        reading_ns=max(before.took_ns, after.took_ns),
    )


def _gained(before: Mapping[str, int] | None, after: Mapping[str, int] | None, number: int) -> dict[str, Reading]:
    """Give what one virtual CPU gained; None is one that was not there."""
    names = [counter.name for counter in COUNTERS if counter.name in {*(before or {}), *(after or {})}]
    return {name: _gain(name, before, after, number) for name in names}


def _gain(name: str, before: Mapping[str, int] | None, after: Mapping[str, int] | None, number: int) -> Reading:
    for when, counts in (("before", before), ("after", after)):
        if counts is None:
            return Absent(absent=f"virtual CPU {number} was not there {when} the trial")
        if name not in counts:
            return Absent(absent=f"virtual CPU {number} had no such counter {when} the trial")
    assert before is not None and after is not None  # noqa: S101, PT018 - for the type checker
    if after[name] < before[name]:
        return Absent(absent=f"virtual CPU {number}: the count went down, from {before[name]} to {after[name]}")
    return Value(value=after[name] - before[name])


def _sum(name: str, vcpus: tuple[Mapping[str, Reading], ...]) -> Reading:
    total = 0
    for number, gained in enumerate(vcpus):
        reading = gained.get(name, Absent(absent=f"virtual CPU {number} has no such counter"))
        if isinstance(reading, Absent):
            return reading
        assert isinstance(reading.value, int)  # noqa: S101 - for the type checker
        total += reading.value
    return Value(value=total)
