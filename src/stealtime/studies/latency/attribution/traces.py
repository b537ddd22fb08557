"""A trial's traces in memory, with the names of its threads, ready for the attribution in Rust."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import NeighbourRecord, TrialRecord
from stealtime.store.traces import read_events
from stealtime.wire.message import TracingOutcome, TrialOutcome

if TYPE_CHECKING:
    from stealtime._core import TraceDict


def load_trace(
    path: Path, outcome: TracingOutcome, labels: Iterable[tuple[int, str]], cpus: Sequence[int] | None
) -> "TraceDict":
    """Read the table ``trace``.

    Args:
        path: ``host_trace.parquet`` or ``machine_trace.parquet``.
        outcome: Of the recording.
        labels: Thread ids of that machine, and what to call them instead of by their own names.
        cpus: Where the followed threads can be, so that losses elsewhere do not matter; None means anywhere.

    Raises:
        StealtimeError: The file is missing, damaged, or has other columns.
    """
    known = list(labels)
    distinct = list(dict.fromkeys(label for _, label in known))
    trace: TraceDict = {
        **read_events(path, outcome),
        "tsc_hz": outcome.tsc_hz,
        "labelled": [(thread, distinct.index(label)) for thread, label in known],
        "labels": distinct,
        "cpus": None if cpus is None else sorted(set(cpus)),
    }
    return trace


def host_labels(record: TrialRecord) -> list[tuple[int, str]]:
    """Name the host's threads that belong to the lab: neighbours by number, the rest by role."""
    labels: list[tuple[int, str]] = []
    if record.machine is not None:
        for thread in record.machine.threads:
            if thread.role in ("emulator", "vcpu"):
                labels.append((thread.tid, "emulator" if thread.role == "emulator" else f"vCPU ({thread.name})"))
            elif thread.role == "control":
                labels.append((thread.tid, "control plane"))
    for neighbour in record.neighbours:
        labels.extend((thread.tid, neighbour.name) for thread in neighbour.threads)
        if traits_of(neighbour.platform).is_native:
            labels.extend((thread, neighbour.name) for thread in _own_threads(neighbour))
    return labels


def _own_threads(neighbour: NeighbourRecord) -> list[int]:
    """Give the threads of its load or its work, as its machine numbers them."""
    if neighbour.outcome is not None:
        return neighbour.outcome.thread_ids
    return [] if neighbour.work is None else probe_threads(neighbour.work.outcome)


def machine_labels(outcome: TrialOutcome) -> list[tuple[int, str]]:
    words = {"injection": "injection", "agent": "agent"}
    return [(thread.id, words[thread.role]) for thread in outcome.threads if thread.role in words]


def probe_threads(outcome: TrialOutcome) -> list[int]:
    """Give the measuring threads, as the machine under test numbers them."""
    probes = [thread.id for thread in outcome.threads if thread.role == "probe"]
    return probes or list(outcome.placement.thread_ids)


def absent_groups(whose: str, outcome: TracingOutcome, costs: dict[str, str]) -> list[str]:
    """Say which groups of events are missing and what that costs.

    Args:
        whose: ``host`` or ``machine``.
        outcome: Of the recording.
        costs: For each group that matters, what cannot be told without it.
    """
    steps = []
    for group, cost in costs.items():
        reading = outcome.groups.get(group)
        why = getattr(reading, "absent", None)
        if reading is None or why is not None:
            steps.append(f"the {whose} was traced without {group} ({why or 'not recorded'}): {cost}")
    return steps
