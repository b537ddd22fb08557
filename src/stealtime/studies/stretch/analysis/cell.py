"""The figures of one cell from its trials."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import HostViews, NeighbourRecord, ShareRecord
from stealtime.studies.stretch.analysis.model import Guest, IterationTimes, Repetition, StretchCell
from stealtime.studies.stretch.stored import ITERATIONS, Contention
from stealtime.vocabulary.readings import Absent, Reading

if TYPE_CHECKING:
    from stealtime.store.run import Trial

_NS = 1e-9


def figures_of(trials: Sequence["Trial"]) -> StretchCell:
    """Compute what the work of a cell took in each valid repetition.

    Args:
        trials: Of one cell, at least one.
    """
    record = next((one.record for one in trials if one.record.placement is not None), trials[0].record)
    cell, placement = record.cell, record.placement
    outcomes = [one.record.outcome for one in trials if one.record.outcome is not None]
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    reasons = [one.record.failure.message for one in trials if one.record.failure is not None]
    reasons += [finding.text for finding in findings if finding.level == "invalidates"]
    valid = [one for one in trials if one.record.outcome is not None and one.record.outcome.is_valid]
    vcpus = 1 if placement is None else len(placement.vcpu_cpus)
    return StretchCell(
        platform=cell.platform,
        scenario=cell.scenario,
        probe=cell.probe,
        parameters=cell.parameters,
        traced=cell.traced,
        valid=not reasons,
        reasons=list(dict.fromkeys(reasons)),
        limits=list(dict.fromkeys(finding.text for finding in findings if finding.level == "limits")),
        repetitions=[_repetition(one) for one in valid],
        iterations=_iteration_times(valid),
        vcpus=vcpus,
        host_cpus=1 if placement is None else len({cpu for cpus in placement.vcpu_cpus for cpu in cpus}),
        itself=_guest(vcpus, None if placement is None else placement.share),
        beside=[_neighbour(one) for one in record.neighbours],
    )


def _repetition(trial: "Trial") -> Repetition:
    result, record = trial.result(Contention), trial.record
    views = record.host_views
    is_native = traits_of(record.cell.platform).is_native
    wait_ns = result.run_delay_ns if is_native else waited_ns(result, views)
    return Repetition(
        repetition=record.repetition,
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
    )


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
    return _guest(record.load.threads, record.share)


def _iteration_times(trials: Sequence["Trial"]) -> IterationTimes | None:
    columns = [pq.read_table(one.table(ITERATIONS), columns=["duration_ns"]).column(0).to_numpy() for one in trials]
    if not sum(map(len, columns)):
        return None
    milliseconds = np.concatenate(columns) * 1e-6
    p50, p95 = np.percentile(milliseconds, [50, 95], method="higher")
    return IterationTimes(
        count=len(milliseconds), p50_ms=float(p50), p95_ms=float(p95), max_ms=float(milliseconds.max())
    )
