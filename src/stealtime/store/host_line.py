"""Where the moments of a trial lie on the host's clock: ``CLOCK_MONOTONIC_RAW`` of the host that keeps the run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import TrialRecord
from stealtime.store.time_line import ClocksNotAligned, allowed_offsets, check_same_counter, told_offset
from stealtime.vocabulary.clocks import ClockReading, ClockRecord
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OWN_COUNTER = "the machine reads the host's own counter"


class NotOnHostClock(StealtimeError):  # noqa: N818 - it is a verdict more than an error
    """Nothing says where the moments of a trial lie on the host's clock."""


@dataclass(frozen=True)
class CounterLine:
    """A counter beside the host's clock: both at one moment, and how fast it runs."""

    cycles: int
    at_ns: int
    ns_per_cycle: float

    def moments(self, cycles: Any) -> "NDArray[np.int64]":
        """Bring an array of the counter's values to the host's clock, each to the nanosecond that it lies in."""
        import numpy as np

        # Distances are small enough for a float; the values themselves are not.
        distances = np.asarray(cycles).astype(np.int64) - np.int64(self.cycles)
        found: NDArray[np.int64] = np.floor(distances * self.ns_per_cycle).astype(np.int64) + np.int64(self.at_ns)
        return found

    def moment(self, cycles: int) -> int:
        import numpy as np

        return int(self.moments(np.array([cycles]))[0])


@dataclass(frozen=True)
class HostLine:
    """A trial on the host's clock."""

    host: CounterLine | None
    """Of the host's counter; None where nothing says how it stood, as without a trace."""
    machine: CounterLine
    """Of the machine's counter."""
    error_ns: float
    """A bound: the machine's moments are at most this far from where they are put."""
    method: str
    is_same_counter: bool = False
    """Whether the machine reads the host's own counter."""

    def with_offset(self, machine_minus_host: int, error_ns: float, method: str) -> "HostLine":
        """Put the machine's counter where something knows better how far it is from the host's."""
        if self.host is None or self.is_same_counter:
            return self
        machine = replace(self.host, cycles=self.host.cycles + machine_minus_host)
        return replace(self, machine=machine, error_ns=error_ns, method=method)


def host_line(record: TrialRecord) -> HostLine:
    """Find where a measured trial lies on the host's clock.

    Raises:
        NotOnHostClock: It was killed before clocks were exchanged the second time, or they contradict each other.
    """
    outcome = record.outcome
    if outcome is None:
        raise NotOnHostClock(f"{record.trial_id} has no clock: no agent measured it")
    traced = record.host_tracing
    host = None if traced is None else _between(traced.start, traced.end)
    traits = traits_of(record.cell.platform)
    try:
        if traits.is_native or traits.is_seen_from_host:
            return _own_counter(record, outcome.clock, host)
        return _other_counter(record, host)
    except ClocksNotAligned as error:
        raise NotOnHostClock(f"{record.trial_id}: {error.message}", hint=error.hint) from error


def _own_counter(record: TrialRecord, clock: ClockRecord, host: CounterLine | None) -> HostLine:
    if host is not None:
        if record.alignment is not None and record.host_tracing is not None:
            check_same_counter(record.alignment, record.host_tracing)
        return HostLine(host, host, 0.0, _OWN_COUNTER, is_same_counter=True)
    if traits_of(record.cell.platform).is_native:
        machine = _between(clock.start, clock.end)
        return HostLine(machine, machine, 0.0, "the machine is the host", is_same_counter=True)
    return _other_counter(record, None)


def _other_counter(record: TrialRecord, host: CounterLine | None) -> HostLine:
    alignment = record.alignment
    if alignment is None:
        raise NotOnHostClock(f"{record.trial_id} was cut short before its clocks were exchanged a second time")
    before, after = alignment.before, alignment.after
    if host is None or record.host_tracing is None:
        elapsed = after.machine_tsc - before.machine_tsc
        if elapsed <= 0:
            raise NotOnHostClock(f"the counter of {record.trial_id} moved by {elapsed} cycles over the trial")
        rate = (after.host_monotonic_raw_ns - before.host_monotonic_raw_ns) / elapsed
        return HostLine(
            None,
            CounterLine(before.machine_tsc, before.host_monotonic_raw_ns, rate),
            float(max(before.error_ns, after.error_ns)),
            "on a line through the exchanges of clocks before and after the trial",
        )
    allowed = allowed_offsets(alignment, record.host_tracing)
    told = told_offset(alignment, allowed)
    low, high = allowed if told is None else (told, told)
    middle = (low + high) // 2
    return HostLine(
        host,
        replace(host, cycles=host.cycles + middle),
        (high - low) / 2 * host.ns_per_cycle,
        "exchanges of clocks before and after the trial" if told is None else "the offset that the hypervisor adds",
    )


def _between(start: ClockReading, end: ClockReading) -> CounterLine:
    elapsed = end.tsc - start.tsc
    if elapsed <= 0:
        raise NotOnHostClock(f"the host's counter moved by {elapsed} cycles over the trial")
    rate = (end.monotonic_raw_ns - start.monotonic_raw_ns) / elapsed
    return CounterLine(start.tsc, start.monotonic_raw_ns, rate)
