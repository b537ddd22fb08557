"""A trial's samples with their times as CSV, a row group at a time, so that 50 M rows take no more memory than one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from stealtime.store.durations import EVENTS, SAMPLES, Durations
from stealtime.store.run import Trial
from stealtime.store.sample_units import read_units
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
    ns_per_unit = 1e9 / outcome.clock.units_per_s
    interval = layout.interval if layout.name == "periodic" else None
    for samples in read_units(trial.tables(SAMPLES), trial.tables(EVENTS), layout.name, interval):
        index = np.arange(samples.first, samples.first + len(samples.start), dtype=np.int64)
        columns = (index, _in_ns(samples.start, ns_per_unit), _in_ns(samples.duration, ns_per_unit))
        yield pa.record_batch([pa.array(column) for column in columns], schema=_SCHEMA)


def _in_ns(units: "NDArray[np.int64]", ns_per_unit: float) -> "NDArray[np.float64]":
    rounded: NDArray[np.float64] = np.round(units * ns_per_unit, _DECIMALS)
    return rounded
