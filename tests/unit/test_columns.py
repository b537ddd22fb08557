"""Columns made of Python's values are those that pyarrow makes, and are made without pandas."""

import subprocess
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stealtime.store.columns import arrow_column

COLUMNS: list[tuple[list[Any], pa.DataType]] = [
    (["a", None, "", "é" * 300], pa.string()),
    ([0, 2**64 - 1, None], pa.uint64()),
    ([0, 2**32 - 1], pa.uint32()),
    ([0.1, None, -1e300], pa.float64()),
    ([True, False, None] * 7, pa.bool_()),
    ([datetime(2026, 11, 30, 7, 0, 0, 1), None], pa.timestamp("us")),
]


@pytest.mark.parametrize(("values", "kind"), [*COLUMNS, *(([], kind) for _, kind in COLUMNS)])
def test_a_column_is_what_pyarrow_makes(values: list[Any], kind: pa.DataType) -> None:
    made = arrow_column(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, type=kind))


def test_a_merge_loads_no_pandas(tmp_path: Path) -> None:
    assert find_spec("pandas") is not None, "it is not installed, so that nobody can load it"
    script = (
        "import sys; from pathlib import Path; from stealtime.merging.tables import write_merged_rows; "
        "write_merged_rows(Path(sys.argv[1]), []); print('pandas' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", script, tmp_path], text=True) == "False\n"
