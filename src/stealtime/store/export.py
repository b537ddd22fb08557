"""A trial's samples with their times as CSV, a row group at a time, so that 50 M rows take no more memory than one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stealtime.store.durations import EVENTS, SAMPLES, Durations
from stealtime.store.run import Trial
from stealtime.store.tables import ROWS_A_GROUP
from stealtime.store.writer import disk_errors
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCHEMA = pa.schema([("index", pa.int64()), ("start_ns", pa.float64()), ("duration_ns", pa.float64())])
_DECIMALS = 1
"""A tenth of a nanosecond: finer than the counter of any CPU up to 10 GHz."""


def write_samples_csv(trial: Trial, target: Path) -> int:
    """Write ``index,start_ns,duration_ns`` for every sample; ``start_ns`` counts from the start of sample 0.

    Returns:
        The number of samples.

    Raises:
        StealtimeError: The trial has no samples, its files are damaged, or ``target`` cannot be written.
    """
    rows = 0
    batches = read_samples(trial)
    with whole_or_absent(target), disk_errors(target), pa_csv.CSVWriter(target, _SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


@contextmanager
def whole_or_absent(path: Path) -> Iterator[None]:
    """Remove a file that is not written to its end: half of the samples look like all of them."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_samples(trial: Trial) -> Iterator[Any]:
    """Give the samples of ``trial`` as record batches of ``index``, ``start_ns``, ``duration_ns``, in order.

    Saturated values are put in from ``events.parquet``.

    Raises:
        StealtimeError: The trial has no samples or its files are damaged.
    """
    outcome, layout = trial.record.outcome, trial.result(Durations).layout
    if outcome is None:
        raise StealtimeError(f"{trial.record.trial_id} has no samples: it failed")
    trial.check_tables()
    events = trial.tables(EVENTS)
    ns_per_unit = 1e9 / outcome.clock.units_per_s
    long_durations = _saturated(events, "saturated")
    long_gaps = _saturated(events, "saturated_gap")
    pauses = _saturated(events, "pause")
    first = 0
    # Of the samples before the batch; where they come at regular times, of the pauses among them.
    end_units = 0
    for batch in _batches(trial.tables(SAMPLES)):
        index = np.arange(first, first + batch.num_rows, dtype=np.int64)
        duration = _true_values(batch.column("duration"), first, long_durations)
        paused = _pauses_before(pauses, first, batch.num_rows)
        if layout.name == "periodic":
            start = index * layout.interval + np.cumsum(paused) + end_units
            end_units += int(paused.sum())
        else:
            if layout.name == "gapped":
                paused = paused + _true_values(batch.column("gap"), first, long_gaps)
            ends = np.cumsum(paused + duration) + end_units
            start = ends - duration
            end_units = int(ends[-1])
        first += batch.num_rows
        columns = (index, _in_ns(start, ns_per_unit), _in_ns(duration, ns_per_unit))
        yield pa.record_batch([pa.array(column) for column in columns], schema=_SCHEMA)


def _batches(paths: Sequence[Path]) -> Iterator[Any]:
    """Give the rows of files one after the other, a row group at a time.

    Raises:
        StealtimeError: One of them is damaged.
    """
    for path in paths:
        try:
            yield from pq.ParquetFile(path).iter_batches(batch_size=ROWS_A_GROUP)
        except pa.ArrowException as error:
            raise StealtimeError(
                f"{path} is damaged: {error}", hint="remove its folder and measure it again with --resume"
            ) from error


def _saturated(events: Sequence[Path], kind: str) -> dict[int, int]:
    values: dict[int, int] = {}
    for path in events:
        table = pq.read_table(path, filters=[("kind", "=", kind)])
        values.update(zip(table["index"].to_pylist(), table["duration"].to_pylist(), strict=True))
    return values


def _true_values(column: Any, first: int, saturated: dict[int, int]) -> "NDArray[np.int64]":
    values: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    for index, value in saturated.items():
        if first <= index < first + len(values):
            values[index - first] = value
    return values


def _pauses_before(pauses: dict[int, int], first: int, rows: int) -> "NDArray[np.int64]":
    """Give how long nobody watched before each of the samples from ``first`` on."""
    values = np.zeros(rows, dtype=np.int64)
    for index, units in pauses.items():
        if first <= index < first + rows:
            values[index - first] = units
    return values


def _in_ns(units: "NDArray[np.int64]", ns_per_unit: float) -> "NDArray[np.float64]":
    rounded: NDArray[np.float64] = np.round(units * ns_per_unit, _DECIMALS)
    return rounded
