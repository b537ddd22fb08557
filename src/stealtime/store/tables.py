"""The tables of a result: from the Arrow stream that the agent sent to a Parquet file, a piece at a time.

Encoding and compression were chosen by measurement, on 20 M ``tick`` durations (``docs/decisions``): byte-stream-split
with zstd takes 1.0 bytes a row and writes 120 M rows a second on one core; plain lz4 takes 1.9 bytes at 95 M rows/s.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.vocabulary.errors import StealtimeError

ROWS_A_GROUP = 1 << 20
"""Large enough that a group's costs vanish, small enough that several threads share the reading of one trial."""
PARQUET_KEY = b"stealtime"
EVENTS_SCHEMA = pa.schema(
    [("kind", pa.string()), ("index", pa.uint64()), ("start", pa.uint64()), ("duration", pa.uint64())]
)


def write_parquet(stream: Path, target: Path, description: Mapping[str, Any]) -> int:
    """Write the Arrow IPC stream in ``stream`` as Parquet with a description, holding one row group at a time.

    Returns:
        The number of rows.

    Raises:
        StealtimeError: ``stream`` is not a whole Arrow stream.
        OSError: ``target`` cannot be written, for example because the disk is full.
    """
    rows = 0
    with open_stream(stream) as reader:
        schema = reader.schema.with_metadata(_key(description))
        with _parquet_writer(target, schema) as writer:
            for table in row_groups(reader, schema, stream):
                writer.write_table(table, row_group_size=ROWS_A_GROUP)
                rows += table.num_rows
    return rows


def join_parquet(parts: Sequence[Path], target: Path) -> None:
    """Write the rows of Parquet files into one, with the description of the last, holding one row group at a time.

    Raises:
        StealtimeError: One of them is damaged, or has other columns.
        OSError: ``target`` cannot be written, for example because the disk is full.
    """
    schema = pq.read_schema(parts[-1])
    with _parquet_writer(target, schema) as writer:
        for part in parts:
            try:
                with pq.ParquetFile(part) as file:
                    batches = file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False)
                    for batch in batches:
                        writer.write_table(pa.Table.from_batches([batch]).cast(schema), row_group_size=ROWS_A_GROUP)
            except pa.ArrowException as error:
                raise _damaged(part, error) from error


@contextmanager
def open_stream(stream: Path) -> Iterator[Any]:
    """Open an Arrow IPC stream.

    Raises:
        StealtimeError: ``stream`` is none.
    """
    with pa.OSFile(str(stream), "rb") as source:
        try:
            reader = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            raise _damaged(stream, error) from error
        yield reader


def write_empty(schema: Any, target: Path, description: Mapping[str, Any]) -> None:
    schema = schema.with_metadata(_key(description))
    with _parquet_writer(target, schema) as writer:
        writer.write_table(schema.empty_table())


def read_description(path: Path) -> dict[str, Any]:
    """Give what the Parquet key ``stealtime`` says (``docs/run-format.md``).

    Raises:
        StealtimeError: ``path`` is damaged or not ours.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise StealtimeError(f"{path} is damaged: {error}", hint="measure this cell again with --resume") from error
    if PARQUET_KEY not in metadata:
        raise StealtimeError(f"{path} was not written by stealtime: it lacks the key {PARQUET_KEY.decode()!r}")
    description: dict[str, Any] = json.loads(metadata[PARQUET_KEY])
    return description


def _key(description: Mapping[str, Any]) -> dict[bytes, bytes]:
    return {PARQUET_KEY: json.dumps(description).encode()}


def _parquet_writer(target: Path, schema: Any) -> Any:
    numbers = {field.name: "BYTE_STREAM_SPLIT" for field in schema if pa.types.is_integer(field.type)}
    return pq.ParquetWriter(
        target,
        schema,
        compression="zstd",
        # Durations hardly repeat: a dictionary would be built and thrown away for each row group.
        use_dictionary=[field.name for field in schema if not pa.types.is_integer(field.type)],
        column_encoding=numbers,
        write_statistics=False,
        store_schema=True,
    )


def row_groups(reader: Any, schema: Any, stream: Path) -> Iterator[Any]:
    """Join the small batches of a stream to tables of ``ROWS_A_GROUP`` rows.

    Raises:
        StealtimeError: The stream ends before its end, or its columns are not those of ``schema``.
    """
    batches: list[Any] = []
    rows = 0
    try:
        for batch in reader:
            batches.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_A_GROUP:
                yield pa.Table.from_batches(batches).cast(schema)
                batches, rows = [], 0
    except (pa.ArrowInvalid, pa.ArrowIOError) as error:
        raise _damaged(stream, error) from error
    if batches:
        yield pa.Table.from_batches(batches).cast(schema)


def _damaged(stream: Path, error: Exception) -> StealtimeError:
    return StealtimeError(
        f"the agent's table {stream.name} is damaged: {error}", hint="measure the cell again with --resume"
    )
