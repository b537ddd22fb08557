"""The columns of a stored trace, and of the jobs beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime._core import EventsDict
    from stealtime.wire.message import TracingOutcome

TRACE_COLUMNS: dict[str, Any] = {
    "time": np.uint64,
    "cpu": np.uint16,
    "kind": np.uint8,
    "thread": np.int32,
    "value": np.int64,
    "other": np.int32,
    "priority": np.int16,
    "name": np.uint32,
}
DAMAGED = "the file has been damaged: measure the cell again with `stealtime run --resume`"


def events_of(path: Path, tracing: "TracingOutcome") -> "EventsDict":
    """Read a trace that is stored.

    Raises:
        StealtimeError: It is damaged.
    """
    columns = read_columns(path, list(TRACE_COLUMNS))
    for name, wanted in TRACE_COLUMNS.items():
        if columns[name].dtype != wanted:
            raise StealtimeError(f"the column {name!r} of {path} is {columns[name].dtype}", hint=DAMAGED)
    return with_names(columns, tracing)


def with_names(columns: Mapping[str, Any], tracing: "TracingOutcome") -> "EventsDict":
    """Complete columns by what the recording says."""
    events: EventsDict = {
        **{name: columns[name] for name in TRACE_COLUMNS},  # type: ignore[typeddict-item]
        "names": tracing.names,
        "covered": (tracing.start.tsc, tracing.end.tsc),
    }
    return events


def read_columns(path: Path, columns: list[str]) -> dict[str, Any]:
    """Read some columns of a table.

    Raises:
        StealtimeError: The file is missing or damaged.
    """
    try:
        table = pq.read_table(path, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"{path}: {' '.join(str(error).split())}", hint=DAMAGED) from error
    return {name: np.ascontiguousarray(table.column(name).to_numpy()) for name in columns}
