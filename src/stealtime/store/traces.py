"""A recorded trace in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stealtime.store.columns import read_columns
from stealtime.store.surroundings import TRACE_SCHEMA

if TYPE_CHECKING:
    from stealtime._core import EventsDict
    from stealtime.wire.message import TracingOutcome


def read_events(path: Path, outcome: "TracingOutcome") -> "EventsDict":
    """Read ``host_trace.parquet`` or ``machine_trace.parquet``.

    Raises:
        StealtimeError: The file is missing, damaged, or has other columns.
    """
    return events_of(read_columns(path, TRACE_SCHEMA), outcome)


def events_of(columns: Mapping[str, Any], outcome: "TracingOutcome") -> "EventsDict":
    """Complete the columns of a trace by what its recording says."""
    events: EventsDict = {
        **{name: columns[name] for name in TRACE_SCHEMA.names},  # type: ignore[typeddict-item]
        "names": outcome.names,
        "covered": (outcome.start.tsc, outcome.end.tsc),
    }
    return events
