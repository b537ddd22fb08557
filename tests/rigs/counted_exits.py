"""The exits of a guest as the host's trace has them, beside those that KVM counted over the same time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime._core import EVENT_KINDS
from stealtime.lab.platforms.kvm_counters import CountersGained
from stealtime.store.run import Trial
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import TracingOutcome

_VM_EXIT = EVENT_KINDS.index("vm_exit")
AT_THE_EDGES = 2
"""KVM counts an exit a little after its event: at each end of the window one may be on the other side, of each vCPU."""


@dataclass(frozen=True)
class Exits:
    """Both counts of one trial."""

    counted: int
    """By KVM, between two readings."""
    traced_between: int
    """After the end of the first reading and before the beginning of the second."""
    traced_with_readings: int
    """The same with the readings themselves, during which the counters were read."""
    vcpus: int

    @property
    def agree(self) -> bool:
        """Whether KVM's count lies between the two of the trace."""
        edges = AT_THE_EDGES * self.vcpus
        return self.traced_between - edges <= self.counted <= self.traced_with_readings + edges


def exits_of(trial: Trial) -> Exits:
    """Count the exits of a traced trial's machine.

    Args:
        trial: Of a guest under KVM, with the host's trace and nothing lost.
    """
    record, counters = trial.record, trial.record.hypervisor_counters
    assert isinstance(counters, CountersGained), counters
    assert record.host_tracing is not None
    counted = counters.total["exits"]
    assert isinstance(counted, Value), counted
    assert isinstance(counted.value, int)
    between, with_readings = count_exits(exit_times(trial), record.host_tracing, counters)
    return Exits(counted.value, between, with_readings, len(counters.vcpus))


def exit_times(trial: Trial, reason: str | None = None) -> NDArray[np.int64]:
    """Give when a machine was left for its hypervisor, in cycles of the host's counter, rising.

    Args:
        trial: Of a guest under KVM, with the host's trace and nothing lost.
        reason: Only for this one.
    """
    tracing, machine = trial.record.host_tracing, trial.record.machine
    assert tracing is not None
    assert tracing.lost == 0, "what was lost is in no count"
    assert machine is not None
    rows = pq.read_table(trial.folder / "host_trace.parquet", columns=["time", "kind", "thread", "name"])
    vcpus = [thread.tid for thread in machine.threads if thread.role == "vcpu"]
    is_meant = (rows["kind"].to_numpy() == _VM_EXIT) & np.isin(rows["thread"].to_numpy(), vcpus)
    if reason is not None:
        numbers = [number for number, name in enumerate(tracing.names) if name == reason]
        is_meant &= np.isin(rows["name"].to_numpy(), numbers)
    return np.sort(rows["time"].to_numpy()[is_meant].astype(np.int64))


def count_exits(times: Any, tracing: TracingOutcome, counters: CountersGained) -> tuple[int, int]:
    """Count events between the two readings, and between them with the readings.

    Args:
        times: Of the events, on the host's counter.
        tracing: Brings that counter to the clock of the readings.
        counters: Tell when they were read.
    """
    ns = tracing.start.monotonic_raw_ns + (times.astype(np.int64) - tracing.start.tsc) * 1e9 / tracing.tsc_hz
    begin_ns, end_ns = counters.begin_monotonic_raw_ns, counters.end_monotonic_raw_ns
    between = (ns >= begin_ns) & (ns <= end_ns)
    with_readings = (ns >= begin_ns - counters.reading_ns) & (ns <= end_ns + counters.reading_ns)
    return int(between.sum()), int(with_readings.sum())
