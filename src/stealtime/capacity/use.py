"""What was used between two samples, in percent and nanoseconds; pure.

A counter that went backwards, or was not there both times, gives an absent figure with the reason, never a 0.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stealtime.capacity.counters.parsers import CPU_COLUMNS, NOTHING_YET, ThreadCounts
from stealtime.capacity.counters.quota import Throttled, held_between_ns
from stealtime.capacity.counters.topology import UNKNOWN, Topology
from stealtime.capacity.guest import Guest
from stealtime.capacity.sample import GuestSample, GuestView, Sample
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.vocabulary.readings import Absent

Figure = float | Absent
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_WALL_COLUMNS = CPU_COLUMNS.index("guest")
"""The columns that add up to a CPU's time; ``guest`` and ``guest_nice`` are in ``user`` and ``nice`` already."""
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_STEAL = CPU_COLUMNS.index("steal")


class CpuUse(NamedTuple):
    """One CPU of the host, each share in percent of its time."""

    busy_percent: Figure
    """All but idle, waiting for a disk, and what the host's own host took."""
    guest_percent: Figure
    """Instructions of guests under KVM; those under TCG and User-Mode Linux are in ``busy_percent`` only."""
    interrupts_percent: Figure
    steal_percent: Figure


_NOTHING = ThreadsUse(0.0, 0.0, 0.0, Absent(absent="there is no such thread"))
_NEVER = Absent(absent="it was never dispatched")
_NOT_YET = Absent(absent="its other threads were read once only")
_NO_QUOTA: tuple[Figure, float | None] = (0.0, None)
_SWAP_UNASKED = Absent(absent="its kernel was not asked how much it swaps in")
_MEMORY_UNASKED = Absent(absent="its kernel was not asked how much memory it has left")
_MEMORY_NOT_KEPT = Absent(absent="what all guests were given was not kept")
_SWAP_NOT_KEPT = Absent(absent="how much the host swaps in was not kept")
_SLEPT = ThreadsUse(0.0, 0.0, 0.0, _NEVER)


@dataclass(frozen=True, slots=True)
class ViewUse:
    """What a guest's own kernel said."""

    queue: float
    """Threads that wait for one of its CPUs."""
    vcpus: int
    steal_percent: Figure
    """Of the time of all its CPUs."""
    pressure_percent: Figure
    swap_in_bytes_per_s: Figure = _SWAP_UNASKED
    memory_available_percent: Figure = _MEMORY_UNASKED
    """Of its own memory."""


class GuestUse(NamedTuple):
    """One guest."""

    guest: Guest
    vcpus: Mapping[int, ThreadsUse]
    emulator: ThreadsUse | Absent
    """Of the last few seconds, as :attr:`io`: these threads are read less often."""
    io: ThreadsUse | Absent
    allowed_cpus: frozenset[int] | Absent
    """Where its virtual CPUs may run."""
    unreadable: Absent | None = None
    """Why the figures above mean nothing."""
    throttled_percent: Figure = 0.0
    """Of the time of each virtual CPU, on average, by quotas of CPU groups; 0 where none holds."""
    quota_cpus: float | None = None
    view: ViewUse | Absent | None = None
    others_run_percent: Figure | None = None
    """What everything else used of the CPUs where its virtual CPU may run, in percent of one CPU; None where each
    virtual CPU is one thread, of which nobody asks."""


@dataclass(frozen=True, slots=True)
class Use:
    """The host and its guests between two samples."""

    elapsed_s: float
    cpus: Mapping[int, CpuUse] | Absent
    memory_available_percent: Figure
    pressure_percent: Mapping[str, Figure]
    """Share of the time in which some task was held up, by resource."""
    guests: Mapping[tuple[int, int], GuestUse]
    memory_committed_percent: Figure = _MEMORY_NOT_KEPT
    """What all guests were given, of all memory: above 100 not all of them can have it at once."""
    swap_in_bytes_per_s: Figure = _SWAP_NOT_KEPT
    topology: Topology = UNKNOWN


def between(before: Sample, after: Sample) -> Use:
    elapsed_ns = after.at_ns - before.at_ns
    if elapsed_ns <= 0:
        raise ValueError(f"the second sample is {-elapsed_ns} ns before the first")
    cpus = _cpus(before.cpus, after.cpus)
    return Use(
        elapsed_s=elapsed_ns / 1e9,
        cpus=cpus,
        memory_available_percent=after.memory_bytes
        if isinstance(after.memory_bytes, Absent)
        else 100 * after.memory_bytes[1] / after.memory_bytes[0],
        pressure_percent={
            name: _pressure(before.pressure_us.get(name), one, elapsed_ns) for name, one in after.pressure_us.items()
        },
        guests={
            key: _guest(before.guests[key], guest, cpus, elapsed_ns)
            for key, guest in after.guests.items()
            if key in before.guests
        },
        memory_committed_percent=_committed(after),
        swap_in_bytes_per_s=_host_swap_in(before, after, elapsed_ns),
        topology=after.topology,
    )


def _committed(sample: Sample) -> Figure:
    if isinstance(sample.memory_bytes, Absent):
        return sample.memory_bytes
    given = [one.guest.memory_bytes for one in sample.guests.values()]
    unknown = given.count(None)
    if unknown:
        return Absent(absent=f"{unknown} of {len(given)} guests do not tell how much memory they were given")
    return 100 * sum(one for one in given if one is not None) / sample.memory_bytes[0]


def _host_swap_in(before: Sample, after: Sample, elapsed_ns: int) -> Figure:
    for one in (before.swapped_in_pages, after.swapped_in_pages):
        if isinstance(one, Absent):
            return one
    assert isinstance(before.swapped_in_pages, int) and isinstance(after.swapped_in_pages, int)  # noqa: S101, PT018
    return _rate(before.swapped_in_pages, after.swapped_in_pages, elapsed_ns)


def _cpus(
    before: Mapping[int, tuple[int, ...]] | Absent, after: Mapping[int, tuple[int, ...]] | Absent
) -> Mapping[int, CpuUse] | Absent:
    for rows in (before, after):
        if isinstance(rows, Absent):
            return rows
    assert not isinstance(before, Absent) and not isinstance(after, Absent)  # noqa: S101, PT018 - for the type checker
    # A CPU that came online or went offline meanwhile has no whole interval.
    return {cpu: _cpu(before[cpu], row) for cpu, row in after.items() if cpu in before}


def _cpu(before: tuple[int, ...], after: tuple[int, ...]) -> CpuUse:
    gained = [second - first for first, second in zip(before, after, strict=False)]
    # Linux may count a little of idle and iowait back (proc_stat(5)); together they only go up.
    columns = dict(zip(CPU_COLUMNS, gained, strict=False))
    unused = columns["idle"] + columns.get("iowait", 0)
    others = {name: ticks for name, ticks in columns.items() if name not in ("idle", "iowait")}
    # Stolen time is known to run backwards where a host is moved or its own host counts wrongly: the rest is right.
    steal_is_lost = others.get("steal", 0) < 0
    if steal_is_lost:
        others["steal"] = 0
    backwards = next((name for name, ticks in others.items() if ticks < 0), "idle" if unused < 0 else None)
    total = unused + sum(others.get(name, 0) for name in CPU_COLUMNS[:_WALL_COLUMNS])
    if backwards is not None or total <= 0:
        absent = Absent(absent=f"the counter {backwards} went backwards" if backwards else "the CPU's time stood still")
        return CpuUse(absent, absent, absent, absent)

    def share(*names: str) -> Figure:
        missing = next((name for name in names if name not in columns), None)
        if missing is not None:
            return Absent(absent=f"this kernel does not count {missing}")
        return 100 * sum(columns[name] for name in names) / total

    steal = others.get("steal", 0)
    return CpuUse(
        busy_percent=100 * (total - unused - steal) / total,
        guest_percent=share("guest", "guest_nice"),
        interrupts_percent=share("irq", "softirq"),
        steal_percent=Absent(absent="the counter steal went backwards") if steal_is_lost else share("steal"),
    )


def _pressure(before: Mapping[str, int] | Absent | None, after: Mapping[str, int] | Absent, elapsed_ns: int) -> Figure:
    # `irq` has only `full`: all tasks of the CPU are held up at once.
    if isinstance(after, Absent):
        return after
    if before is None or isinstance(before, Absent):
        return before or Absent(absent="it was not read before")
    kind = "some" if "some" in after else "full"
    if kind not in before or kind not in after:
        return Absent(absent=f"there is no line {kind}")
    gained = after[kind] - before[kind]
    if gained < 0:
        return Absent(absent=f"the counter went backwards, from {before[kind]} to {after[kind]} us")
    return 100 * gained * 1000 / elapsed_ns


def _guest(before: GuestSample, after: GuestSample, cpus: Mapping[int, CpuUse] | Absent, elapsed_ns: int) -> GuestUse:
    unreadable = after.unreadable or before.unreadable
    vcpus: dict[int, ThreadsUse] = {}
    for group, tids in after.groups.items():
        if not isinstance(group, int):
            continue
        use = _vcpu(tids, before, after, elapsed_ns)
        if use is None:
            continue
        if isinstance(use, Absent):
            unreadable = unreadable or use
        else:
            vcpus[group] = use
    throttled, quota_cpus = _NO_QUOTA
    if after.throttled is not None:
        throttled, quota_cpus = _throttled(before.throttled, after.throttled, max(len(vcpus), 1), elapsed_ns)
    return GuestUse(
        guest=after.guest,
        vcpus=vcpus,
        emulator=_others(after, "emulator"),
        io=_others(after, "io"),
        allowed_cpus=after.allowed_cpus,
        unreadable=unreadable,
        throttled_percent=throttled,
        quota_cpus=quota_cpus,
        view=None if after.view is None else _view(before.view, after.view, elapsed_ns),
        others_run_percent=_run_by_others(vcpus, after.allowed_cpus, cpus) if after.guest.kind == "uml" else None,
    )


def _run_by_others(
    vcpus: Mapping[int, ThreadsUse], allowed_cpus: frozenset[int] | Absent, cpus: Mapping[int, CpuUse] | Absent
) -> Figure:
    """Give what the CPUs of a guest did beside running its virtual CPUs."""
    if isinstance(allowed_cpus, Absent):
        return allowed_cpus
    if isinstance(cpus, Absent):
        return cpus
    busy_percent = 0.0
    for cpu in allowed_cpus & cpus.keys():
        of_cpu = cpus[cpu].busy_percent
        if isinstance(of_cpu, Absent):
            return of_cpu
        busy_percent += of_cpu
    # Ticks and nanoseconds differ a little.
    return max(0.0, busy_percent - sum(one.run_percent for one in vcpus.values()))


def _others(sample: GuestSample, role: str) -> ThreadsUse | Absent:
    others = sample.others
    if others is not None and (known := others.uses.get(role)) is not None:
        return known
    tids = sample.groups.get(role)
    if tids is None:
        return _NOTHING
    if others is None:
        return _NOT_YET
    first, last = others.first, others.last
    moved = [(first.counts[tid], last.counts[tid]) for tid in tids if tid in first.counts and tid in last.counts]
    use = others.uses[role] = _threads(moved, last.at_ns - first.at_ns)
    return use


def run_percent(threads: ThreadsUse | Absent) -> Figure:
    return threads if isinstance(threads, Absent) else threads.run_percent


def _vcpu(tids: Sequence[int], before: GuestSample, after: GuestSample, elapsed_ns: int) -> ThreadsUse | Absent | None:
    """Give the use of one virtual CPU; None where none of its threads was read both times."""
    began = after.began
    moved = [
        (before.counts.get(tid, NOTHING_YET), after.counts[tid])
        for tid in tids
        # One that ended while it was looked at has no counters; one that was found late has a history.
        if tid in after.counts and (tid in before.counts or tid in began)
    ]
    if not moved and tids:
        return None
    use = _threads(moved, elapsed_ns)
    if isinstance(use, Absent):
        return use
    if use is _SLEPT and not after.starving.isdisjoint(tids):
        return ThreadsUse(0.0, 100.0, 0.0, float(elapsed_ns))
    # The kernel of a User-Mode Linux guest can be woken while its program waits: that is one wait of one CPU.
    wait_percent = min(use.wait_percent, max(0.0, 100 - use.run_percent))
    return use if wait_percent == use.wait_percent else use._replace(wait_percent=wait_percent)


def _threads(moved: Sequence[tuple[ThreadCounts, ThreadCounts]], elapsed_ns: int) -> ThreadsUse | Absent:
    """Give the use of threads.

    Args:
        moved: The counters of each, before and after.
        elapsed_ns: Between the two.
    """
    run_ns = wait_ns = waited_ns = dispatches = 0
    for first, last in moved:
        if last is first:
            continue  # it slept
        ran_ns, in_queue_ns = last.run_ns - first.run_ns, last.wait_ns - first.wait_ns
        if ran_ns < 0 or in_queue_ns < 0 or last.dispatches < first.dispatches:
            return Absent(absent=f"a thread's counter went backwards, from {tuple(first)} to {tuple(last)}")
        run_ns += ran_ns
        wait_ns += in_queue_ns
        # The kernel adds a wait when it ends: one that began earlier is not all of this interval.
        waited_ns += min(in_queue_ns, max(0, elapsed_ns - ran_ns))
        dispatches += last.dispatches - first.dispatches
    if not (run_ns or wait_ns or dispatches):
        return _SLEPT
    return ThreadsUse(
        run_percent=100 * run_ns / elapsed_ns,
        wait_percent=100 * waited_ns / elapsed_ns,
        dispatches_per_s=dispatches * 1e9 / elapsed_ns,
        wait_per_dispatch_ns=wait_ns / dispatches if dispatches else _NEVER,
    )


def _throttled(
    before: Throttled | Absent | None, after: Throttled | Absent, vcpus: int, elapsed_ns: int
) -> tuple[Figure, float | None]:
    if isinstance(after, Absent):
        return after, None
    if before is None or isinstance(before, Absent):
        return Absent(absent="its quota was set meanwhile"), after.quota_cpus
    held_ns = held_between_ns(before, after)
    if isinstance(held_ns, Absent):
        return held_ns, after.quota_cpus
    return min(100.0, 100 * held_ns / elapsed_ns / vcpus), after.quota_cpus


def _view(before: GuestView | Absent | None, after: GuestView | Absent, elapsed_ns: int) -> ViewUse | Absent:
    if isinstance(after, Absent):
        return after
    steal: Figure = Absent(absent="it was asked once only")
    pressure: Figure = Absent(absent="it was asked once only")
    if before is not None and not isinstance(before, Absent):
        uses = [_cpu(first, after.ticks[cpu]) for cpu, first in before.ticks.items() if cpu in after.ticks]
        steals = [use.steal_percent for use in uses if not isinstance(use.steal_percent, Absent)]
        if any(row[_STEAL] for row in after.ticks.values() if len(row) > _STEAL):
            steal = sum(steals) / len(steals) if steals else Absent(absent="its counters went backwards")
        else:
            steal = Absent(absent="its kernel has never counted stolen time: nobody may tell it of any")
        pressure = after.pressure_us if isinstance(after.pressure_us, Absent) else Absent(absent="it was not there")
        if not isinstance(before.pressure_us, Absent) and not isinstance(after.pressure_us, Absent):
            gained_us = after.pressure_us - before.pressure_us
            pressure = 100 * gained_us * 1000 / elapsed_ns if gained_us >= 0 else Absent(absent="it went backwards")
    # Windows' queue length leaves out the threads that run. One of those that Linux counts is the reader itself.
    queue = float(max(0, after.running - 1 - after.vcpus))
    swap_in = _swap_in(before, after, elapsed_ns)
    return ViewUse(queue, after.vcpus, steal, pressure, swap_in, after.memory_available_percent)


def _swap_in(before: GuestView | Absent | None, after: GuestView, elapsed_ns: int) -> Figure:
    if isinstance(after.swapped_in_pages, Absent):
        return after.swapped_in_pages
    if before is None or isinstance(before, Absent) or isinstance(before.swapped_in_pages, Absent):
        return Absent(absent="it was asked once only")
    return _rate(before.swapped_in_pages, after.swapped_in_pages, elapsed_ns)


def _rate(before_pages: int, after_pages: int, elapsed_ns: int) -> Figure:
    if after_pages < before_pages:
        return Absent(absent="the counter of pages swapped in went backwards")
    return (after_pages - before_pages) * _PAGE_BYTES * 1e9 / elapsed_ns
