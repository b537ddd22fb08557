"""The tables that travel of a trial: made once, beside its samples, and read by whoever merges runs."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.store.columns import DAMAGED
from stealtime.store.counts import (
    ROUNDED,
    Counts,
    count_samples,
    counts_table,
    sha256_of,
    total_rows,
    write_table,
)
from stealtime.store.documents import COUNTS, ENVELOPE, LONGEST
from stealtime.store.durations import EVENTS, SAMPLES, Durations
from stealtime.store.files import sync
from stealtime.store.run import Trial
from stealtime.store.sample_units import read_units
from stealtime.store.tables import PARQUET_KEY
from stealtime.vocabulary.errors import StealtimeError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CountsFile:
    """``counts.parquet`` of a trial."""

    counts: Counts
    units_per_s: float
    watched_units: int
    layout: str
    sha256: dict[str, str]
    """Of the tables that the counts were made of, by file name."""


def has_counts(trial: Trial) -> bool:
    """Tell whether a trial is of those that are counted: its samples are durations."""
    result = trial.record.result
    return trial.record.has_result and result is not None and result.kind == "durations"


def write_travelling(trial: Trial, folder: Path) -> None:
    """Count a trial's samples and write the tables into ``folder``, which is its own or a merged run's.

    Raises:
        StealtimeError: Its samples are damaged.
        OSError: They cannot be written.
    """
    outcome = trial.record.outcome
    if outcome is None:
        raise StealtimeError(f"{trial.record.trial_id} has no samples to count")
    layout = trial.result(Durations).layout
    interval = layout.interval if layout.name == "periodic" else None
    samples, events = trial.tables(SAMPLES), trial.tables(EVENTS)
    found = count_samples(read_units(samples, events, layout.name, interval), total_rows(samples))
    description: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "layout": layout.model_dump(mode="json"),
        "units_per_s": outcome.clock.units_per_s,
        "watched_units": found.watched_units,
        "sha256": {path.name: sha256_of(path) for path in (*samples, *events)},
    }
    if found.backwards:
        description["backwards"] = found.backwards
    if found.counts.rounded:
        description["fallback"] = {"name": ROUNDED, "samples": found.counts.rounded}
    # The counts come last: where they are, the others are.
    for table, name in ((found.longest, LONGEST), (found.envelope, ENVELOPE), (counts_table(found.counts), COUNTS)):
        write_table(table, folder / name, description)
        sync(folder / name)


def read_counts(trial: Trial) -> CountsFile:
    """Give a trial's counts; those of a run of an earlier version are made now, and kept where that can be written.

    Raises:
        StealtimeError: They are damaged, or are to be made of samples that are.
    """
    path = trial.folder / COUNTS
    if not path.is_file():
        with contextlib.suppress(OSError):
            write_travelling(trial, trial.folder)
    return read_counts_file(path)


def read_counts_file(path: Path) -> CountsFile:
    """Read one ``counts.parquet``.

    Raises:
        StealtimeError: It is not there, damaged, or of a newer version.
    """
    try:
        # A file that is open already: who opens a path looks for its file system first, which takes as long as reading.
        with pa.OSFile(str(path)) as file:
            table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
        description = json.loads((table.schema.metadata or {})[PARQUET_KEY])
        version = int(description["schema_version"])
        if version > SCHEMA_VERSION:
            raise StealtimeError(
                f"{path} has schema version {version}; this stealtime reads up to {SCHEMA_VERSION}",
                hint="read it with the stealtime that wrote it, or a newer one",
            )
        duration, count = (_whole(table.column(name)) for name in ("duration", "count"))
        if duration.dtype != np.uint64 or count.dtype != np.uint64 or np.any(duration[1:] <= duration[:-1]):
            raise StealtimeError(f"{path} does not count each duration once, in order", hint=DAMAGED)
        return CountsFile(
            counts=Counts(duration, count, int(description.get("fallback", {}).get("samples", 0))),
            units_per_s=float(description["units_per_s"]),
            watched_units=int(description["watched_units"]),
            layout=str(description["layout"]["name"]),
            sha256=dict(description["sha256"]),
        )
    except FileNotFoundError as error:
        raise StealtimeError(f"{path} does not exist", hint="it is made where the samples are") from error
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise StealtimeError(f"{path} is damaged: {' '.join(str(error).split())}", hint=DAMAGED) from error


def _whole(column: pa.ChunkedArray) -> Any:
    """Give a column; what is in one piece, as all that we write is, without a copy, and without loading pandas."""
    return np.from_dlpack(column.chunk(0)) if column.num_chunks == 1 else column.to_numpy()
