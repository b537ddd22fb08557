"""When the host took the CPU from a guest: its vCPU's thread could run and did not, by the host's trace."""

from typing import TYPE_CHECKING

import numpy as np

from stealtime._core import attribute_virtual
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.time_line import allowed_offsets, told_offset
from stealtime.store.traces import read_events
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime._core import SpikesDict, TraceDict
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Trial

_NO_SPIKES: "SpikesDict" = {
    "start": np.zeros(0, np.uint64),
    "duration": np.zeros(0, np.uint64),
    "floor": 0,
    "time_lines_of": [],
}


def taken_from(trial: "Trial") -> list[tuple[int, int]] | str:
    """Give the stretches in which the host took the measured vCPU's CPU, on the machine's counter; or why it cannot.

    Stretches are as long as the exchanges of clocks let them be: where the offset of the counters is known to some
    microseconds, a stretch is longer by that at both ends, so that none is missed.
    """
    record = trial.record
    path, tracing = trial.host_trace_path, record.host_tracing
    if traits_of(record.cell.platform).is_native:
        return "natively no trace tells what a host above takes"
    if path is None or tracing is None:
        return "the host was not traced"
    thread = _vcpu_thread(record)
    if thread is None or record.alignment is None:
        return "which thread of the host is the virtual CPU, or how the clocks go together, is not known"
    try:
        offsets = allowed_offsets(record.alignment, tracing)
        told = told_offset(record.alignment, offsets)
        host: TraceDict = {
            **read_events(path, tracing),
            "tsc_hz": tracing.tsc_hz,
            "labelled": [],
            "labels": [],
            "cpus": None,
        }
        found = attribute_virtual(
            host,
            [{"threads": [thread], "real_time": False, "limit_lifted": False}],
            offsets if told is None else (told, told),
            None,
            {"threads": [], "real_time": True, "limit_lifted": True},
            _NO_SPIKES,
        )
    except StealtimeError as error:
        return error.message
    except ValueError as error:
        return str(error)
    low, high = found["offsets"]
    begins, ends = found["wait_start"].astype(np.int64) + low, found["wait_end"].astype(np.int64) + high
    return [(max(0, begin), end) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True) if end > 0]


def _vcpu_thread(record: "TrialRecord") -> int | None:
    """Give the thread of the measured virtual CPU; their names count them (``CPU 0/TCG``)."""
    if record.machine is None:
        return None
    wanted = f"CPU {record.machine.measured_cpu}/"
    threads = [thread for thread in record.machine.threads if thread.role == "vcpu"]
    return next((thread.tid for thread in threads if thread.name.startswith(wanted)), None)
