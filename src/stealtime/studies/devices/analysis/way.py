"""The way of each request of a trial to the disk and back, in parts that add up (``crates/iopath``)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime._core import REQUEST_PARTS, split_requests
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.columns import read_columns
from stealtime.store.time_line import ClocksNotAligned, allowed_offsets, told_offset
from stealtime.store.traces import read_events
from stealtime.studies.devices.companion import INTERRUPTS, RAISED_NS, interrupts_schema
from stealtime.studies.devices.requests import Requests
from stealtime.vocabulary.readings import Value

if TYPE_CHECKING:
    from stealtime._core import EventsDict, RequestsDict
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Trial
    from stealtime.wire.message import TracingOutcome, TrialOutcome

UNEXPLAINED = "unexplained"
_NUMBER = re.compile(r"\d+")
_WALL_CLOCK_STEP_NS = 1000
"""QEMU writes down times in microseconds."""
_NO_INTERRUPTS = "the emulator tells of no interrupts: only those that wake a sleeping CPU are seen"
_ALL_MOMENTS = (1 << 9) - 1


@dataclass(frozen=True)
class Ways:
    """The requests of a trial, each in parts."""

    parts_ns: dict[str, NDArray[np.float64]]
    """A row a request: each of ``REQUEST_PARTS``."""
    duration_ns: NDArray[np.float64]
    error_ns: float
    """How far the machine's and the host's events may be shifted against each other."""
    whole: int
    """Of how many requests every moment was seen."""
    out_of_order: int
    """Moments that were left out, for they stood out of order by more than the error."""
    steps: tuple[str, ...] = ()
    """What was not recorded, and what that costs."""

    @property
    def requests(self) -> int:
        return len(self.duration_ns)

    @property
    def explained_share(self) -> float:
        """Give how much of all requests' time is not unexplained."""
        total = float(self.duration_ns.sum())
        return 1 - float(self.parts_ns[UNEXPLAINED].sum()) / total if total else 0.0


def ways_of(trial: "Trial", outcome: "TrialOutcome", times: Requests) -> "Ways | str":
    """Split the requests of a trial by the traces that it has; or say why not.

    Args:
        trial: Measured.
        outcome: Of its probe.
        times: Of its requests. What one waits before it is handed over is no part of its way.

    Raises:
        StealtimeError: A trace is damaged.
    """
    record = trial.record
    if times.offset_bytes is None:
        return "only requests to disks are split"
    requests: RequestsDict = {
        "submitted": times.submitted,
        "returned": times.ended,
        "offset_bytes": times.offset_bytes,
    }
    ns_a_cycle = 1e9 / outcome.clock.tsc_hz
    duration = (requests["returned"] - requests["submitted"]).astype(np.float64) * ns_a_cycle
    if traits_of(record.cell.platform).is_native:
        parts = {part: np.zeros(len(duration)) for part in REQUEST_PARTS}
        parts["host_io"] = duration
        return Ways(parts, duration, 0.0, len(duration), 0)
    if not record.cell.traced:
        return "the cell was not traced"
    host = _host(trial)
    machine = _machine(trial, outcome)
    if host is None and machine is None:
        return "neither the machine nor its host was traced"
    steps = [*_missing("host", host is None), *_missing("machine", machine is None)]
    offsets = (0, 0)
    raised = np.zeros(0, np.uint64)
    if host is not None:
        tracing = host[1]
        if record.alignment is None:
            return "the clocks were not exchanged"
        try:
            offsets = allowed_offsets(record.alignment, tracing)
        except ClocksNotAligned as error:
            return error.message
        told = told_offset(record.alignment, offsets)
        offsets = offsets if told is None else (told, told)
        raised, why_not = _raised(trial, tracing)
        steps += [] if why_not is None else [why_not]
    found = split_requests(
        requests,
        machine,
        None if host is None else read_events(*host),
        _vcpus(record),
        (raised, 0 if host is None else round(_WALL_CLOCK_STEP_NS * host[1].tsc_hz / 1e9)),
        offsets,
    )
    low, high = found["offsets"]
    error_ns = (high - low) / 2 * ns_a_cycle
    return Ways(
        {part: cycles.astype(np.float64) * ns_a_cycle for part, cycles in found["parts"].items()},
        duration,
        error_ns if host is not None else 0.0,
        int(np.count_nonzero(found["seen"] == _ALL_MOMENTS)),
        found["out_of_order"],
        tuple(steps),
    )


def _missing(whose: str, is_missing: bool) -> list[str]:
    return [f"the {whose} was not traced: what happens there is unexplained"] if is_missing else []


def _host(trial: "Trial") -> "tuple[Path, TracingOutcome] | None":
    path, tracing = trial.host_trace_path, trial.record.host_tracing
    return None if path is None or tracing is None else (path, tracing)


def _machine(trial: "Trial", outcome: "TrialOutcome") -> "EventsDict | None":
    path, tracing = trial.machine_trace_path, outcome.tracing
    if path is None or tracing is None or not isinstance(tracing.groups.get("block"), Value):
        return None
    return read_events(path, tracing)


def _raised(trial: "Trial", host: "TracingOutcome") -> tuple[NDArray[np.uint64], str | None]:
    """Give when the emulator raised interrupts, on the host's counter."""
    parts = [read_columns(path, interrupts_schema())[RAISED_NS] for path in trial.tables(INTERRUPTS)]
    at_ns = np.concatenate(parts).astype(np.int64)
    if not len(at_ns):
        return np.zeros(0, np.uint64), _NO_INTERRUPTS
    elapsed_ns = host.end.monotonic_raw_ns - host.start.monotonic_raw_ns
    cycles_a_ns = (host.end.tsc - host.start.tsc) / elapsed_ns
    # The time was cut to whole microseconds.
    since_ns = at_ns - host.start.monotonic_raw_ns + _WALL_CLOCK_STEP_NS // 2
    raised = host.start.tsc + np.round(since_ns * cycles_a_ns).astype(np.int64)
    return np.sort(raised).astype(np.uint64), None


def _vcpus(record: "TrialRecord") -> list[int]:
    """Give the threads of virtual CPU 0, 1 ...: their names count them (``CPU 0/TCG``)."""
    threads = [] if record.machine is None else [one for one in record.machine.threads if one.role == "vcpu"]
    numbered = [(int(found.group()) if (found := _NUMBER.search(one.name)) else one.tid, one.tid) for one in threads]
    return [tid for _, tid in sorted(numbered)]
