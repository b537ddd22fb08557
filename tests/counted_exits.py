"""The exits of a guest as the host's trace has them, beside those that KVM counted over the same time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stealtime.store.model import HypervisorCounters
from stealtime.store.run import Trial
from stealtime.wire.message import TracingOutcome, Value

VM_EXIT = 8
"""The code of the event, see docs/run-format.md."""
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
    assert isinstance(counters, HypervisorCounters), counters
    assert record.host_tracing is not None
    assert record.host_tracing.lost == 0, "what was lost is in no count"
    assert record.machine is not None
    rows = pq.read_table(trial.folder / "host_trace.parquet", columns=["time", "kind", "thread"])
    vcpus = [thread.tid for thread in record.machine.threads if thread.role == "vcpu"]
    is_exit = (rows["kind"].to_numpy() == VM_EXIT) & np.isin(rows["thread"].to_numpy(), vcpus)
    times = rows["time"].to_numpy()[is_exit]
    counted = counters.total["exits"]
    assert isinstance(counted, Value), counted
    assert isinstance(counted.value, int)
    between, with_readings = count_exits(times, record.host_tracing, counters)
    return Exits(counted.value, between, with_readings, len(vcpus))


def count_exits(times: Any, tracing: TracingOutcome, counters: HypervisorCounters) -> tuple[int, int]:
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
