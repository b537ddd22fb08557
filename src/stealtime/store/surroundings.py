"""Tables recorded besides the samples of a trial: kernel traces, and when the neighbours' loads were on.

Times of a trace are the counter of the machine that was traced; those of the neighbours are brought to the host's
counter here, so that a reader of ``neighbours.parquet`` needs no other clock.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.store.neighbour_table import NeighbourTable
from stealtime.store.tables import PARQUET_KEY, ROWS_A_GROUP, open_stream, row_groups
from stealtime.wire.message import TracingOutcome

TRACE_SCHEMA = pa.schema(
    [
        ("time", pa.uint64()),
        ("cpu", pa.uint16()),
        ("kind", pa.uint8()),
        ("thread", pa.int32()),
        ("value", pa.int64()),
        ("other", pa.int32()),
        ("priority", pa.int16()),
        ("name", pa.uint32()),
    ]
)
NEIGHBOURS_SCHEMA = pa.schema(
    [
        ("neighbour", pa.uint16()),
        ("thread", pa.uint32()),
        ("start", pa.uint64()),
        ("duration", pa.uint64()),
        ("work", pa.uint64()),
    ]
)


def write_trace(stream: Path, target: Path, outcome: TracingOutcome) -> int:
    """Write a table ``trace`` as Parquet, holding one row group at a time.

    Returns:
        The number of rows.

    Raises:
        StealtimeError: ``stream`` is not a whole Arrow stream of that table.
        OSError: ``target`` cannot be written.
    """
    description = {"clock": outcome.clock, "tsc_hz": outcome.tsc_hz, "names": outcome.names}
    rows = 0
    with open_stream(stream) as reader:
        schema = TRACE_SCHEMA.with_metadata(_key("trace", description))
        with _writer(target, schema, rising=("time",)) as writer:
            for table in row_groups(reader, schema, stream):
                writer.write_table(table, row_group_size=ROWS_A_GROUP)
                rows += table.num_rows
    return rows


def write_neighbours(tables: Sequence[NeighbourTable], target: Path) -> int:
    """Write ``neighbours.parquet``: the rows of every neighbour, on the host's counter.

    Returns:
        The number of rows.

    Raises:
        StealtimeError: A stream is not a whole Arrow stream of the table ``load``.
        OSError: ``target`` cannot be written.
    """
    schema = NEIGHBOURS_SCHEMA.with_metadata(_key("neighbours", {"clock": "the time-stamp counter of the host"}))
    own = pa.schema([field for field in schema if field.name != "neighbour"])
    rows = 0
    with _writer(target, schema, rising=("start",)) as writer:
        for one in tables:
            with open_stream(one.stream) as reader:
                for table in row_groups(reader, own, one.stream):
                    writer.write_table(_on_host(table, one, schema))
                    rows += table.num_rows
    return rows


def _on_host(table: Any, neighbour: NeighbourTable, schema: Any) -> Any:
    counter = neighbour.counter
    columns = {
        "neighbour": np.full(table.num_rows, neighbour.number, np.uint16),
        "thread": table["thread"],
        "start": counter.to_host(table["start"].to_numpy()),
        "duration": counter.lengths_to_host(table["duration"].to_numpy()),
        "work": table["work"],
    }
    return pa.table(columns, schema=schema)


def _key(table: str, description: Mapping[str, Any]) -> dict[bytes, bytes]:
    return {PARQUET_KEY: json.dumps({"schema_version": 1, "table": table, **description}).encode()}


def _writer(target: Path, schema: Any, rising: tuple[str, ...]) -> Any:
    """Open a Parquet file: times by their differences, everything else by its few different values."""
    return pq.ParquetWriter(
        target,
        schema,
        compression="zstd",
        use_dictionary=[field.name for field in schema if field.name not in rising],
        column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        write_statistics=list(rising),
        store_schema=True,
    )
