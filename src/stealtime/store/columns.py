"""Columns of a stored table in memory, each of the type that its schema says."""

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
