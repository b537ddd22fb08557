"""Columns of a stored table in memory, each of the type that its schema says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.vocabulary.errors import StealtimeError

DAMAGED = "the file has been damaged: measure the cell again with `stealtime run --resume`"


def read_columns(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """Read columns into one contiguous array each, shape (rows,).

    Args:
        path: A Parquet file; columns that the schema does not name are left.
        schema: The columns, none of which may have empty rows.

    Raises:
        StealtimeError: The file is missing, damaged, or has other columns.
    """
    try:
        table = pq.read_table(path, columns=schema.names)
    except FileNotFoundError as error:
        raise StealtimeError(f"{path} does not exist", hint=DAMAGED) from error
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"{path} is not a whole table: {' '.join(str(error).split())}", hint=DAMAGED) from error
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type or column.null_count:
            raise StealtimeError(
                f"the column {field.name!r} of {path} is {column.type} with {column.null_count} empty rows,"
                f" not {field.type}",
                hint=DAMAGED,
            )
    return {name: np.ascontiguousarray(table.column(name).to_numpy()) for name in schema.names}


def columns_of_stream(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """Read the columns of an Arrow IPC stream, as an agent has just sent it, into one contiguous array each.

    Raises:
        StealtimeError: It is not whole, or has other columns.
    """
    try:
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_stream(file).read_all().select(schema.names)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StealtimeError(f"{path} is not a whole table: {' '.join(str(error).split())}") from error
    return {name: np.ascontiguousarray(table.column(name).to_numpy()) for name in schema.names}


def arrow_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make a column of Python's values; None is an empty row.

    ``pa.array`` asks of all that it gets whether it is of pandas, and loads pandas for that where it is installed:
    0.2 s of a command that needs nothing else of it.

    Args:
        values: Of the column's type, or None.
        kind: Text, whole numbers, floats, truth values, or ``timestamp("us")`` of datetimes without a time zone.
    """
    if pa.types.is_string(kind):
        builder = pa.lib.StringBuilder()
        for value in values:
            builder.append(value)
        return builder.finish()
    is_there = np.array([value is not None for value in values], bool)
    is_time, is_truth = pa.types.is_timestamp(kind), pa.types.is_boolean(kind)
    numbers = np.array(
        [0 if value is None else value for value in values],
        "datetime64[us]" if is_time else bool if is_truth else str(kind),
    )
    return pa.Array.from_buffers(
        kind,
        len(values),
        [None if is_there.all() else _bits(is_there), _bits(numbers) if is_truth else pa.py_buffer(numbers)],
    )


def _bits(truths: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
