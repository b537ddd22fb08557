"""Tables of a trial as CSV, a row group at a time: as they are, and of traces with kinds and names in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stealtime._core import EVENT_KINDS
from stealtime.store.durations import DURATIONS
from stealtime.store.export import whole_or_absent
from stealtime.store.run import Trial
from stealtime.store.tables import ROWS_A_GROUP, read_description
from stealtime.store.writer import disk_errors
from stealtime.vocabulary.errors import StealtimeError

_NO_NAME = 0xFFFF_FFFF


def write_tables_csv(trial: Trial, folder: Path) -> Mapping[Path, int]:
    """Write what the trial has of traces and neighbours, and the tables of a result that is no durations.

    Args:
        trial: Measured.
        folder: Gets a file ``<trial>.<table>.csv`` for each table that is there.

    Returns:
        The rows of each file.

    Raises:
        StealtimeError: A table is damaged, or a file cannot be written.
    """
    result = trial.record.result
    own = () if result is None or result.kind == DURATIONS.name else result.tables
    tables = {
        **{name: trial.table(name) for name in own},
        "host_trace": trial.host_trace_path,
        "machine_trace": trial.machine_trace_path,
        "neighbours": trial.neighbours_path,
    }
    return {
        target: _write(source, target, is_trace=name.endswith("_trace"))
        for name, source in tables.items()
        if source is not None
        for target in [folder / f"{trial.record.trial_id}.{name}.csv"]
    }


def _write(source: Path, target: Path, *, is_trace: bool) -> int:
    names = read_description(source).get("names", [])
    file = pq.ParquetFile(source)
    schema = file.schema_arrow.remove_metadata()
    if is_trace:
        for column in ("kind", "name"):
            schema = schema.set(schema.get_field_index(column), pa.field(column, pa.string()))
    rows = 0
    try:
        with whole_or_absent(target), disk_errors(target), pa_csv.CSVWriter(target, schema) as writer:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP):
                writer.write_batch(_in_words(batch, schema, names) if is_trace else batch.cast(schema))
                rows += batch.num_rows
    except pa.ArrowException as error:
        raise StealtimeError(
            f"{source} is damaged: {error}", hint="remove its folder and measure it again with --resume"
        ) from error
    return rows


def _in_words(batch: Any, schema: Any, names: list[str]) -> Any:
    """Put words in the place of the numbers of ``kind`` and ``name``; a kind that is not known stays a number."""
    indices = batch.column("name").to_numpy(zero_copy_only=False)
    known = np.array([*names, ""], dtype=object)
    words = {
        "kind": pa.array(
            [EVENT_KINDS[code] if code < len(EVENT_KINDS) else str(code) for code in batch.column("kind").to_pylist()]
        ),
        "name": pa.array(known[np.where(indices == _NO_NAME, len(names), indices)], pa.string()),
    }
    columns = [words.get(field.name, batch.column(field.name)) for field in schema]
    return pa.record_batch(columns, schema=schema)
