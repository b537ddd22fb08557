"""The figures of one cell from its trials."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from stealtime.lab.platforms.kvm_counters import CountersGained
from stealtime.lab.platforms.traits import traits_of
from stealtime.report.cells.records import cell_figures
from stealtime.store.model import HostViews, NeighbourRecord, PlacementRecord, ShareRecord
from stealtime.store.results import read_as
from stealtime.studies.stretch.analysis.model import AlikeGuest, Guest, IterationTimes, Repetition, StretchCell
from stealtime.studies.stretch.analysis.provisioning import provisioning_of
from stealtime.studies.stretch.results import ITERATIONS, Contention
from stealtime.vocabulary.readings import Absent, Reading, Value

if TYPE_CHECKING:
    from stealtime.store.run import Trial

_NS = 1e-9


def summarize_cell(trials: Sequence["Trial"]) -> StretchCell:
    """Compute what the work of a cell took in each valid repetition.

    Args:
        trials: Of one cell, at least one.
    """
    record = next((one.record for one in trials if one.record.placement is not None), trials[0].record)
    placement = record.placement
    figures = cell_figures([one.record for one in trials])
    valid = [one for one, told in zip(trials, figures["trials"], strict=True) if told.valid]
    vcpus = 1 if placement is None else len(placement.vcpu_cpus)
    return StretchCell(
        **figures,
        repetitions=[_repetition_of(one) for one in valid],
        iterations=_iteration_times(valid),
        vcpus=vcpus,
        own_cpus=1 if placement is None else len({cpu for cpus in placement.vcpu_cpus for cpu in cpus}),
        host_cpus=1 if placement is None else _shared_cpus(placement),
        itself=_guest(vcpus, None if placement is None else placement.share),
        beside=[_neighbour(one) for one in record.neighbours],
        alike=_alike(valid),
        provisioning=provisioning_of(valid),
        not_counted=_not_counted(valid),
    )


def _shared_cpus(placement: PlacementRecord) -> int:
    return len({cpu for cpus in (*placement.vcpu_cpus, placement.emulator_cpus) for cpu in cpus})


def _alike(trials: Sequence["Trial"]) -> list[AlikeGuest]:
    """Give the neighbours that did the same work: in a valid trial all of them did."""
    if not trials:
        return []
    found = []
    for number, first in enumerate(trials[0].record.neighbours):
        if first.work is None:
            continue
        own = [(one.record.repetition, one.record.neighbours[number]) for one in trials]
        repetitions = [
            _repetition(
                repetition, neighbour.platform, read_as(neighbour.work.result, Contention), neighbour.host_views
            )
            for repetition, neighbour in own
            if neighbour.work is not None
        ]
        found.append(AlikeGuest(name=first.name, guest=_neighbour(first), repetitions=repetitions))
    return found


def _repetition_of(trial: "Trial") -> Repetition:
    record = trial.record
    kvm = record.hypervisor_counters if isinstance(record.hypervisor_counters, CountersGained) else None
    return _repetition(record.repetition, record.cell.platform, trial.result(Contention), record.host_views, kvm)


def _repetition(
    repetition: int,
    platform: str,
    result: Contention,
    views: HostViews | None,
    kvm: CountersGained | None = None,
) -> Repetition:
    """Give what the work took a machine.

    Args:
        repetition: Its number.
        platform: Of the machine.
        result: As its agent told it.
        views: As the host's kernel saw the machine; None where it did not.
        kvm: What KVM counted; None where it did not, or was not asked.
    """
    is_native = traits_of(platform).is_native
    wait_ns = result.run_delay_ns if is_native else waited_ns(result, views)
    return Repetition(
        repetition=repetition,
        elapsed_s=result.elapsed_ns * _NS,
        cpu_s=result.cpu_ns * _NS,
        fill_cpu_s=result.fill_cpu_ns * _NS,
        lock_wait_s=result.lock_wait_ns * _NS,
        io_s=result.io_ns * _NS,
        io_asked_s=result.io_asked_ns * _NS,
        uneven_idle_s=result.uneven_idle_ns * _NS,
        idle_s=_seconds(result.idle_ns),
        wait_s=_seconds(wait_ns),
        host_run_s=_seconds(_value(views, "run_ns")),
        throttled_s=_seconds(_value(views, "throttled_ns")) or 0.0,
        host_steal_s=_seconds(_value(views, "host_steal_ns")),
        guest_steal_s=_seconds(_value(views, "guest_steal_ns")),
        minor_faults=result.minor_faults,
        checksum=result.checksum,
        fault_cpu_s=_seconds(result.fault_cpu_ns),
        cycles=result.cycles,
        instructions=result.instructions,
        outside_guest_s=_seconds(_outside_guest_ns(views, kvm)),
        exits=_counted(kvm, "exits"),
    )


def _outside_guest_ns(views: HostViews | None, kvm: CountersGained | None) -> int | None:
    """Give how long the virtual CPUs were on a CPU for the hypervisor: neither in the guest nor waiting for its work.

    A halted guest's virtual CPU is polled for a while before it gives its CPU up: in that time the guest idled.
    """
    run_ns, guest_ns = (_value(views, name) for name in ("run_ns", "guest_ns"))
    polls_ns = [_counted(kvm, name) for name in ("halt_poll_success_ns", "halt_poll_fail_ns")]
    if run_ns is None or guest_ns is None or None in polls_ns:
        return None
    return max(0, run_ns - guest_ns - sum(one for one in polls_ns if one is not None))


def _counted(kvm: CountersGained | None, name: str) -> int | None:
    reading = None if kvm is None else kvm.total.get(name)
    return int(str(reading.value)) if isinstance(reading, Value) else None


def _not_counted(trials: Sequence["Trial"]) -> dict[str, str]:
    """Say why some figures of the first trial are None."""
    if not trials:
        return {}
    record, found = trials[0].record, _repetition_of(trials[0])
    reasons: dict[str, str] = {}
    if found.fault_cpu_s is None:
        reasons["fault_cpu_s"] = "its agent did not measure that"
    if found.cycles is None or found.instructions is None:
        fact = None if record.machine is None else record.machine.agent_facts.get("performance_counters")
        has_some = "not all tasks could have counters" if isinstance(fact, Value) else "its agent did not ask for them"
        reasons["instructions"] = fact.absent if isinstance(fact, Absent) else has_some
    if found.outside_guest_s is None and not traits_of(record.cell.platform).is_native:
        readings: list[object] = [record.hypervisor_counters]
        if record.host_views is not None:
            readings += [record.host_views.guest_ns, record.host_views.run_ns]
        absent = [one.absent for one in readings if isinstance(one, Absent)]
        reasons["outside_guest_s"] = absent[0] if absent else "KVM gave no time of polling"
    return reasons


def waited_ns(result: Contention, views: HostViews | None) -> int | None:
    """Give how long a guest's virtual CPUs wanted a CPU of the host and had none.

    The run delay of all threads of a guest counts time twice in which two of them wait, as those of User-Mode Linux do,
    which hand one virtual CPU to each other: what neither ran nor idled is the most that was waited.
    """
    delay_ns, run_ns = _value(views, "run_delay_ns"), _value(views, "run_ns")
    if delay_ns is None or run_ns is None or result.idle_ns is None:
        return delay_ns
    return min(delay_ns, max(0, result.cpus * result.elapsed_ns - run_ns - result.idle_ns))


def _value(views: HostViews | None, name: str) -> int | None:
    reading: Reading | None = None if views is None else getattr(views, name)
    return None if reading is None or isinstance(reading, Absent) else int(str(reading.value))


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds * _NS


def _guest(vcpus: int, share: ShareRecord | None) -> Guest:
    if share is None:
        return Guest(vcpus=vcpus)
    return Guest(vcpus=vcpus, weight=share.weight, quota_percent=share.quota_percent)


def _neighbour(record: NeighbourRecord) -> Guest:
    if record.load is not None:
        return _guest(record.load.threads, record.share)
    return _guest(record.vcpus, record.share).model_copy(update={"is_alike": True})


def _iteration_times(trials: Sequence["Trial"]) -> IterationTimes | None:
    columns = [pq.read_table(one.table(ITERATIONS), columns=["duration_ns"]).column(0).to_numpy() for one in trials]
    if not sum(map(len, columns)):
        return None
    milliseconds = np.concatenate(columns) * 1e-6
    p50, p95 = np.percentile(milliseconds, [50, 95], method="higher")
    return IterationTimes(
        count=len(milliseconds), p50_ms=float(p50), p95_ms=float(p95), max_ms=float(milliseconds.max())
    )
