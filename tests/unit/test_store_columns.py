"""Columns of stored tables: whole and of their types, or refused with the file's name."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stealtime.store.columns import DAMAGED, read_columns
from stealtime.vocabulary.errors import StealtimeError

SCHEMA = pa.schema([("task", pa.uint16()), ("release", pa.uint64())])


def test_columns_come_in_the_types_of_the_schema_and_no_others(tmp_path: Path) -> None:
    table = pa.table({"release": pa.array([7, 9], pa.uint64()), "task": pa.array([0, 1], pa.uint16()), "job": [1, 2]})
    pq.write_table(table, tmp_path / "jobs.parquet", row_group_size=1)
    columns = read_columns(tmp_path / "jobs.parquet", SCHEMA)
    assert list(columns) == ["task", "release"]
    assert columns["release"].dtype == np.uint64
    assert columns["release"].tolist() == [7, 9]
    assert columns["release"].flags.c_contiguous


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (pa.array([7, 9], pa.int64()), "the column 'release' of .* is int64 with 0 empty rows, not uint64"),
        (pa.array([7, None], pa.uint64()), "is uint64 with 1 empty rows, not uint64"),
        (None, "is not a whole table: .*release"),
    ],
)
def test_other_columns_are_refused(tmp_path: Path, release: pa.Array | None, message: str) -> None:
    columns = {"task": pa.array([0, 1], pa.uint16())} | ({} if release is None else {"release": release})
    pq.write_table(pa.table(columns), tmp_path / "jobs.parquet")
    with pytest.raises(StealtimeError, match=message) as caught:
        read_columns(tmp_path / "jobs.parquet", SCHEMA)
    assert caught.value.hint == DAMAGED


@pytest.mark.parametrize(("content", "message"), [(None, "does not exist"), (b"PAR1 no", "is not a whole table")])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "jobs.parquet").write_bytes(content)
    with pytest.raises(StealtimeError, match=message):
        read_columns(tmp_path / "jobs.parquet", SCHEMA)
