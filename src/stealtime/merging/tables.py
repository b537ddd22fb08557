"""The tables of a whole run, a row for each trial and for each of its durations: what DuckDB and ``show`` read.

They are an index: all that they hold is in the trials' own folders. Times and durations are in units of the trial's
clock, as there.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.merging.trial_row import CountedTrial, TrialRow
from stealtime.store.columns import arrow_column
from stealtime.store.counts import Counts
from stealtime.store.documents import CELLS, COUNTS, PARTIAL_PREFIX
from stealtime.store.run import Run
from stealtime.store.travelling import CountsFile, read_counts_file
from stealtime.vocabulary.errors import StealtimeError

TRIALS = "trials.parquet"
INDEX_VERSION = 2
_STATE = b"state"
TRIALS_SCHEMA = pa.schema(
    [
        ("trial", pa.uint32()),
        ("folder", pa.string()),
        ("run", pa.string()),
        ("cell", pa.string()),
        ("platform", pa.string()),
        ("scenario", pa.string()),
        ("probe", pa.string()),
        ("measurement", pa.string()),
        ("traced", pa.bool_()),
        ("repetition", pa.uint32()),
        ("host", pa.string()),
        ("started_at", pa.timestamp("us")),
        ("state", pa.string()),
        ("usable", pa.bool_()),
        ("why_not", pa.string()),
        ("units_per_s", pa.float64()),
        ("samples", pa.uint64()),
        ("watched_units", pa.uint64()),
        ("longest_units", pa.uint64()),
        ("longest_start_units", pa.uint64()),
        ("rounded_samples", pa.uint64()),
        ("loop_iterations", pa.uint64()),
        ("limit", pa.string()),
        ("limit_pause_ns", pa.uint64()),
        ("cause", pa.string()),
        ("min_units", pa.uint64()),
        ("p50_units", pa.uint64()),
        ("p90_units", pa.uint64()),
        ("p99_units", pa.uint64()),
        ("p999_units", pa.uint64()),
        ("p9999_units", pa.uint64()),
        ("stalls_1ms", pa.uint64()),
        ("stalls_4ms", pa.uint64()),
    ]
)
RUN_COUNTS_SCHEMA = pa.schema([("trial", pa.uint32()), ("duration", pa.uint64()), ("count", pa.uint64())])


@dataclass(frozen=True)
class RunTables:
    """Both tables of a run in memory."""

    rows: list[TrialRow]
    counts: dict[int, Counts]
    """By the row's ``trial``."""
    remarks: tuple[str, ...] = ()
    """What could not be read and is left out."""


def tables_of(run: Run) -> RunTables:
    """Give the tables of a run: as they are beside its manifest, or made now, and kept where that can be.

    Raises:
        StealtimeError: Those of a merged run are damaged.
    """
    if is_indexed(run):
        try:
            return read_run_tables(run.folder)
        except StealtimeError:
            if run.manifest.merged is not None:
                raise
    remarks: list[str] = []
    trials = counted_trials(run, remarks)
    counts = {one.row.trial: one.counted.counts for one in trials if one.counted is not None}
    made = RunTables([one.row for one in trials], counts, tuple(remarks))
    if run.manifest.state != "running" and not remarks:
        with contextlib.suppress(OSError):
            _write_counts(run.folder, made.counts, _state_of(run))
    return made


def is_indexed(run: Run) -> bool:
    """Tell whether both tables are beside the manifest, and are of the run as it is now."""
    return _has_state(run, TRIALS) and _has_state(run, COUNTS)


def _has_state(run: Run, name: str) -> bool:
    path = run.folder / name
    if run.manifest.merged is not None:
        # Nobody writes to it any more.
        return path.is_file()
    try:
        return bool((pq.read_schema(path).metadata or {}).get(_STATE) == _state_of(run))
    except (OSError, pa.ArrowException):
        return False


def counted_trials(run: Run, remarks: list[str]) -> list[CountedTrial]:
    """Give each trial with its counts; the rows are kept beside the manifest where that can be.

    Args:
        run: Any.
        remarks: What is damaged is left out, and said here.

    Raises:
        StealtimeError: The rows of a merged run are damaged.
    """
    known = _known_rows(run)
    if known is not None:
        try:
            return [CountedTrial(row, _counted(run, row)) for row in known]
        except StealtimeError:
            if run.manifest.merged is not None:
                raise
            # Something has happened to its files since: all of them are looked at.
    # Whoever finds all rows made need not load the studies, which takes longer than reading them.
    from stealtime.merging.rows import made_of

    made = list(made_of(run, remarks))
    if run.manifest.state != "running" and run.manifest.merged is None and not remarks:
        with contextlib.suppress(OSError):
            _write_rows(run.folder, [one.row for one in made], _state_of(run))
    return made


def keep_rows(run: Run) -> None:
    """Put the rows of a run that has ended beside its manifest, so that whoever merges it reads no record."""
    if not _has_state(run, TRIALS):
        counted_trials(run, [])


def _known_rows(run: Run) -> list[TrialRow] | None:
    if run.manifest.merged is not None:
        return _read_rows(run.folder)
    if not _has_state(run, TRIALS):
        return None
    with contextlib.suppress(StealtimeError):
        return _read_rows(run.folder)
    return None


def _counted(run: Run, row: TrialRow) -> CountsFile | None:
    return None if row.samples is None else read_counts_file(run.folder / row.folder / COUNTS)


def _state_of(run: Run) -> bytes:
    """Give what changes whenever a run is written to: an index of another state is made anew."""
    names = sorted(path.name for path in (run.folder / CELLS).glob("[!.]*"))
    text = f"{INDEX_VERSION} {run.manifest.finished_at} {run.manifest.state} {names}"
    return hashlib.sha256(text.encode()).hexdigest().encode()


def write_run_tables(folder: Path, tables: RunTables) -> None:
    """Write both tables into a folder of one's own.

    Raises:
        OSError: They cannot be written.
    """
    _write_counts(folder, tables.counts, b"")
    _write_rows(folder, tables.rows, b"")


def write_merged_rows(folder: Path, rows: Sequence[TrialRow]) -> None:
    """Write the rows of a merged run; its counts are in its trials, and become a table when one is asked for.

    Raises:
        OSError: They cannot be written.
    """
    _write_rows(folder, rows, b"")


def _write_rows(folder: Path, rows: Sequence[TrialRow], state: bytes) -> None:
    columns = [[getattr(row, field.name) for row in rows] for field in TRIALS_SCHEMA]
    arrays = [arrow_column(column, field.type) for column, field in zip(columns, TRIALS_SCHEMA, strict=True)]
    _put(pa.Table.from_arrays(arrays, schema=TRIALS_SCHEMA.with_metadata({_STATE: state})), folder / TRIALS)


def _write_counts(folder: Path, counts: Mapping[int, Counts], state: bytes) -> None:
    empty = [np.empty(0, np.uint64)]
    table = {
        "trial": np.concatenate(
            [np.full(len(one.duration), number, np.uint32) for number, one in counts.items()] or empty
        ),
        "duration": np.concatenate([one.duration for one in counts.values()] or empty),
        "count": np.concatenate([one.count for one in counts.values()] or empty),
    }
    arrays = [pa.array(table[field.name], type=field.type) for field in RUN_COUNTS_SCHEMA]
    _put(
        pa.Table.from_arrays(arrays, schema=RUN_COUNTS_SCHEMA.with_metadata({_STATE: state})),
        folder / COUNTS,
        # The same number thousands of times is one entry of a dictionary, and read as fast.
        use_dictionary=["trial"],
        column_encoding=dict.fromkeys(("duration", "count"), "DELTA_BINARY_PACKED"),
    )


def _put(table: pa.Table, target: Path, **settings: Any) -> None:
    temporary = target.parent / f"{PARTIAL_PREFIX}{target.name}.{os.getpid()}"
    pq.write_table(table, temporary, compression="zstd", **settings)
    temporary.replace(target)


def _read_rows(folder: Path) -> list[TrialRow]:
    with _damage_told(folder):
        columns = pq.ParquetFile(folder / TRIALS).read(use_threads=False).to_pydict()
        return [TrialRow(*values) for values in zip(*(columns[name] for name in TRIALS_SCHEMA.names), strict=True)]


def read_run_tables(folder: Path) -> RunTables:
    """Read both tables of a run.

    Raises:
        StealtimeError: One of them is missing or damaged.
    """
    rows = _read_rows(folder)
    with _damage_told(folder):
        table = pq.ParquetFile(folder / COUNTS).read()
        trial, duration, count = (table.column(name).to_numpy() for name in RUN_COUNTS_SCHEMA.names)
    return RunTables(rows, dict(_parted(trial, duration, count)))


@contextlib.contextmanager
def _damage_told(folder: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, TypeError, KeyError, ValueError) as error:
        raise StealtimeError(
            f"the tables of {folder} are damaged: {' '.join(str(error).split())}", hint="merge the runs again"
        ) from error


def rows_of_merged(run: Run) -> list[TrialRow]:
    """Read the rows of a merged run alone.

    Raises:
        StealtimeError: They are missing or damaged.
    """
    return _read_rows(run.folder)


def _parted(trial: Any, duration: Any, count: Any) -> Iterator[tuple[int, Counts]]:
    edges = np.flatnonzero(np.diff(trial)) + 1
    starts = [0, *edges.tolist()] if len(trial) else []
    for begin, end in zip(starts, [*starts[1:], len(trial)], strict=True):
        yield int(trial[begin]), Counts(duration[begin:end], count[begin:end])
