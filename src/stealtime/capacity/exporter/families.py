"""Which metrics there are: those of the host, of each guest, and of the exporter itself; pure.

A guest has at most ``MOST_SERIES`` series: one with many virtual CPUs has sums instead of one series for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from stealtime.capacity.counters.parsers import CPU_COLUMNS
from stealtime.capacity.exporter.blamed import Blamed
from stealtime.capacity.exporter.exposition import Family, counter, gauge, labels
from stealtime.capacity.exporter.seconds import GuestSeconds
from stealtime.capacity.exporter.stretch_families import prediction_families, stretch_families
from stealtime.capacity.guests.identity import Identity
from stealtime.capacity.own_cost import cpu_seconds, resident_bytes
from stealtime.capacity.prediction.document import PredictionDocument
from stealtime.capacity.rules import Verdict
from stealtime.capacity.sample import Sample
from stealtime.capacity.use import TICK_NS, GuestUse
from stealtime.capacity.watch.state import Snapshot
from stealtime.vocabulary.readings import Absent

MOST_SERIES: Final = 40
"""Of one guest."""
MOST_VCPUS: Final = 5
"""Of a guest that has series for each: three for each are then 15 of its 40."""
_MODES = {
    "user": ("user", "nice"),
    "system": ("system",),
    "interrupts": ("irq", "softirq"),
    "idle": ("idle", "iowait"),
    "steal": ("steal",),
}
_GUEST_COLUMNS = ("guest", "guest_nice")
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_OF_GUESTS = tuple(verdict for verdict in _VERDICTS if verdict != "over-provisioned host")
_OF_HOSTS = tuple(verdict for verdict in _VERDICTS if verdict != "under-provisioned guest")


@dataclass(frozen=True)
class OtherTotals:
    """What a guest's other threads have used since it was first seen, in seconds, by role (``emulator``, ``io``)."""

    run_s: dict[str, float]
    wait_s: dict[str, float]
    throttled_s: float = 0.0


@dataclass(frozen=True)
class Exported:
    """All that is exported, at one moment."""

    sample: Sample
    snapshot: Snapshot
    seconds: Mapping[tuple[int, int], GuestSeconds]
    others: Mapping[tuple[int, int], OtherTotals]
    identities: Mapping[tuple[int, int], Identity]
    blamed: Blamed | None
    """None where neighbours are not looked for."""
    watched_s: float
    """Since the exporter began."""
    version: str
    prediction: PredictionDocument | None = None
    """None where nothing is to be predicted."""


def families(exported: Exported) -> Iterator[Family]:
    yield from _host(exported)
    yield from _guests(exported)
    yield from _vcpus(exported)
    yield from stretch_families(exported.snapshot.uses[-1])
    if exported.prediction is not None:
        yield from prediction_families(exported.prediction)
    if exported.blamed is not None:
        yield from _neighbours(exported.blamed, exported.watched_s)
    yield from _exporter(exported)


def _host(exported: Exported) -> Iterator[Family]:
    sample = exported.sample
    spent = counter("stealtime_host_cpu_seconds", "What a CPU of the host did; user holds what guests ran.")
    inside = counter("stealtime_host_cpu_guest_seconds", "How long a CPU ran guests under KVM; in mode user, too.")
    for cpu, ticks in {} if isinstance(sample.cpus, Absent) else sample.cpus.items():
        columns = dict(zip(CPU_COLUMNS, ticks, strict=False))
        for mode, names in _MODES.items():
            known = [columns[name] for name in names if name in columns]
            if known:
                spent.add(labels(cpu=str(cpu), mode=mode), sum(known), TICK_NS / 1e9)
        if "guest" in columns:
            ran = sum(columns.get(name, 0) for name in _GUEST_COLUMNS)
            inside.add(labels(cpu=str(cpu)), ran, TICK_NS / 1e9)
    held_up = counter("stealtime_host_pressure_seconds", "How long some task was held up by a lack of it (PSI).")
    for name, totals in sample.pressure_us.items():
        if not isinstance(totals, Absent):
            held_up.add(labels(resource=name), totals.get("some", totals.get("full")), 1e-6)
    memory = gauge("stealtime_host_memory_size_bytes", "Memory of the host.")
    available = gauge("stealtime_host_memory_available_bytes", "Memory of the host that is available.")
    if not isinstance(sample.memory_bytes, Absent):
        memory.add("", sample.memory_bytes[0])
        available.add("", sample.memory_bytes[1])
    verdict = gauge("stealtime_host_verdict", "1 for the verdict that holds of the host, 0 for the others.")
    _add_verdict(verdict, {}, exported.snapshot.host.judgement.verdict, _OF_HOSTS)
    yield from (spent, inside, held_up, memory, available, verdict)


def _guests(exported: Exported) -> Iterator[Family]:
    info = gauge("stealtime_guest_info", "Who a guest is; guest names its other series, and differs on one host.")
    verdict = gauge("stealtime_guest_verdict", "1 for the verdict that holds of a guest, 0 for the others.")
    queue = gauge("stealtime_guest_queue_threads", "Threads that wait for a CPU in the guest, as its own kernel says.")
    run = counter("stealtime_guest_thread_run_seconds", "How long threads beside its virtual CPUs ran.")
    wait = counter("stealtime_guest_thread_wait_seconds", "How long threads beside its virtual CPUs waited for a CPU.")
    throttled = counter("stealtime_guest_throttled_seconds", "How long a quota held each virtual CPU back, on average.")
    for key, use in exported.snapshot.uses[-1].guests.items():
        name = use.guest.name
        info.add(_info(use, exported.identities.get(key, Identity())), 1)
        advice = exported.snapshot.guests.get(key)
        if advice is not None:
            _add_verdict(verdict, {"guest": name}, advice.judgement.verdict, _OF_GUESTS)
        if use.view is not None and not isinstance(use.view, Absent):
            queue.add(labels(guest=name), use.view.queue)
        others = exported.others.get(key)
        if others is not None:
            throttled.add(labels(guest=name), others.throttled_s)
            for role in others.run_s:
                run.add(labels(guest=name, role=role), others.run_s[role])
                wait.add(labels(guest=name, role=role), others.wait_s[role])
    yield from (info, verdict, queue, run, wait, throttled)


def _info(use: GuestUse, identity: Identity) -> str:
    guest = use.guest
    return labels(
        guest=guest.name,
        name=identity.name or guest.name,
        uuid=identity.uuid,
        manager=identity.manager,
        manager_id=identity.number,
        kind=guest.kind,
        pid=str(guest.pid),
        vcpus=str(len(use.vcpus)) if use.vcpus else "",
        memory_bytes="" if guest.memory_bytes is None else str(guest.memory_bytes),
    )


def _vcpus(exported: Exported) -> Iterator[Family]:
    run = counter("stealtime_guest_run_seconds", "How long the virtual CPUs of a guest ran, all together.")
    wait = counter("stealtime_guest_wait_seconds", "How long they waited for a CPU of the host, without its quota.")
    dispatches = counter("stealtime_guest_dispatches", "How often they were put on a CPU.")
    watched = counter("stealtime_guest_watched_seconds", "For how many seconds the guest was watched.")
    crowded = counter(
        "stealtime_guest_crowded_seconds", "Seconds in which it waited for more than a quarter of the time it wanted."
    )
    each = [
        counter("stealtime_vcpu_run_seconds", f"How long a virtual CPU ran; of guests with up to {MOST_VCPUS}."),
        counter("stealtime_vcpu_wait_seconds", "How long it waited for a CPU of the host, without its quota."),
        counter("stealtime_vcpu_dispatches", "How often it was put on a CPU."),
    ]
    for seen in exported.seconds.values():
        if not seen.vcpus:
            continue  # which of its threads they are is not known
        guest = labels(guest=seen.guest.name)
        vcpus = seen.vcpus.values()
        run.add(guest, sum(one.run_ns for one in vcpus), 1e-9)
        wait.add(guest, sum(one.wait_ns for one in vcpus), 1e-9)
        dispatches.add(guest, sum(one.dispatches for one in vcpus))
        watched.add(guest, seen.watched_seconds)
        crowded.add(guest, seen.crowded_seconds)
        if len(seen.vcpus) <= MOST_VCPUS:
            for number, one in seen.vcpus.items():
                own = labels(guest=seen.guest.name, vcpu=str(number))
                each[0].add(own, one.run_ns, 1e-9)
                each[1].add(own, one.wait_ns, 1e-9)
                each[2].add(own, one.dispatches)
    yield from (run, wait, dispatches, watched, crowded, *each)


def _neighbours(blamed: Blamed, watched_s: float) -> Iterator[Family]:
    wait = counter(
        "stealtime_guest_neighbour_wait_seconds",
        "For whom a guest waited: its waiting, divided as in the traced windows.",
    )
    for guest, neighbours in blamed.wait_s.items():
        for neighbour, wait_s in neighbours.items():
            wait.add(labels(guest=guest, neighbour=neighbour), wait_s)
    traced = counter("stealtime_neighbours_traced_seconds", "How long the host's switches were recorded.")
    traced.add("", blamed.traced_s)
    watched = counter("stealtime_neighbours_watched_seconds", "For how long that stands.")
    watched.add("", watched_s)
    yield from (wait, traced, watched)


def _exporter(exported: Exported) -> Iterator[Family]:
    build = gauge("stealtime_build_info", "The version of the exporter.")
    build.add(labels(version=exported.version), 1)
    cpu = counter("process_cpu_seconds", "How long the exporter itself ran.")
    cpu.add("", cpu_seconds())
    resident = gauge("process_resident_memory_bytes", "Memory of the exporter itself.")
    resident.add("", resident_bytes())
    yield from (build, cpu, resident)


def _add_verdict(family: Family, of: Mapping[str, str], holds: Verdict, known: Sequence[Verdict]) -> None:
    for verdict in known:
        family.add(labels(**of, verdict=verdict), float(verdict == holds))
