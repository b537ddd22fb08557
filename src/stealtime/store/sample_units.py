"""A trial's samples with their starts in units of its clock, a row group at a time and in integers only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime.store.tables import ROWS_A_GROUP
from stealtime.vocabulary.errors import StealtimeError

_LARGEST = np.iinfo(np.int64).max
BACKWARDS = -1
"""Stands for a time at whose end the clock showed less than at its beginning: a virtual machine's counter may step back
when its host moves it. The agent stores such a difference as it wraps around."""


@dataclass(frozen=True)
class Samples:
    """Some samples in a row."""

    first: int
    """The number of the first one."""
    start: NDArray[np.int64]
    """From the start of sample 0, shape (samples,)."""
    duration: NDArray[np.int64]
    """Shape (samples,). Negative where the clock was behind at the end: that is no duration, see ``BACKWARDS``."""
    end_units: int
    """When the last one ended, or the next one is due."""


def read_units(samples: Sequence[Path], events: Sequence[Path], layout: str, interval: int | None) -> Iterator[Samples]:
    """Give all samples of a trial in order; saturated values are put in from its events.

    Args:
        samples: The files of its samples, one after the other.
        events: Those of its events.
        layout: ``tiled``, ``gapped`` or ``periodic``.
        interval: Of the latter, in units.

    Raises:
        StealtimeError: A file is damaged.
    """
    long_durations = _saturated(events, "saturated")
    long_gaps = _saturated(events, "saturated_gap")
    pauses = _saturated(events, "pause")
    first = 0
    # Of the samples before the batch; where they come at regular times, of the pauses among them.
    end_units = 0
    for batch in _batches(samples):
        index = np.arange(first, first + batch.num_rows, dtype=np.int64)
        duration = _true_values(batch.column("duration"), first, long_durations)
        paused = _pauses_before(pauses, first, batch.num_rows)
        if layout == "periodic":
            start = index * (interval or 0) + np.cumsum(paused) + end_units
            end_units += int(paused.sum())
            due = (first + batch.num_rows) * (interval or 0) + end_units
        else:
            if layout == "gapped":
                paused = paused + np.maximum(_true_values(batch.column("gap"), first, long_gaps), 0)
            lasting = np.maximum(duration, 0)
            ends = np.cumsum(paused + lasting) + end_units
            start = ends - lasting
            due = end_units = int(ends[-1])
        yield Samples(first, start, duration, due)
        first += batch.num_rows


def _batches(paths: Sequence[Path]) -> Iterator[Any]:
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
    return {index: BACKWARDS if value > _LARGEST else value for index, value in values.items()}


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
