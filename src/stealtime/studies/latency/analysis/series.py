"""A trial's samples in memory, ready for the statistics in Rust.

The column is decoded from Parquet straight into one array, a row group at a time and one thread a CPU, so that
50 million rows take 200 MB and never exist twice; more than ``MAPPED_SAMPLES`` are in a file instead.
"""

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime._core import Series, pooled_summary
from stealtime.store.columns import DAMAGED
from stealtime.store.durations import EVENTS, SAMPLES, Durations
from stealtime.store.run import Trial
from stealtime.store.tables import PARQUET_KEY
from stealtime.studies.latency.analysis.clock_rates import different_rates
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime._core import SummaryDict

__all__ = ["Series", "load_series", "pool", "read_durations", "read_ordinary", "read_series"]

_COLUMNS = {"tiled": ("duration",), "gapped": ("duration", "gap"), "periodic": ("duration",)}
_EVENT_COLUMNS = {"kind": pa.string(), "index": pa.uint64(), "start": pa.uint64(), "duration": pa.uint64()}

KEPT_SAMPLES = 64 << 20
"""256 MiB, with gaps twice that: all samples of most runs, and at least those of one trial."""
MAPPED_SAMPLES = 64 << 20
"""A longer column is a file that the kernel may take out of memory again, so that a trial of a day needs no memory for
all of its samples."""
_SCRATCH = "/var/tmp"  # noqa: S108 - nameless files; /tmp is often itself in memory
_kept: OrderedDict[tuple[Path, int, int], Series] = OrderedDict()
"""By folder, time and size of the file, the least recently used one first."""


@dataclass(frozen=True)
class _Description:
    """What the Parquet key ``stealtime`` of ``samples.parquet`` says."""

    layout: Literal["tiled", "gapped", "periodic"]
    interval: int | None
    units_per_s: float


@dataclass(frozen=True)
class _Events:
    """Columns of ``events.parquet``, shape (rows,)."""

    kind: Any
    index: NDArray[np.uint64]
    start: NDArray[np.uint64]
    duration: NDArray[np.uint64]

    def of_kind(self, kind: str) -> "NDArray[np.bool_]":
        chosen: NDArray[np.bool_] = pc.equal(self.kind, kind).to_numpy(zero_copy_only=False)
        return chosen


def load_series(trial: Trial) -> Series:
    """Give all samples of a trial: its figures, its page and its attribution ask for them one after the other.

    What was read last is kept, up to ``KEPT_SAMPLES``.

    Raises:
        StealtimeError: Its result is not of durations, or as :func:`read_series`.
    """
    result = trial.result(Durations)
    status = _status(trial.table(SAMPLES))
    key = (trial.folder, status.st_mtime_ns, status.st_size)
    if key not in _kept:
        _kept[key] = read_series(trial.folder, result.calibrated_floor_units)
    _kept.move_to_end(key)
    series = _kept[key]
    while len(_kept) > 1 and sum(map(len, _kept.values())) > KEPT_SAMPLES:
        _kept.popitem(last=False)
    return series


def read_series(folder: Path, calibrated_floor_units: int | None) -> Series:
    """Read all samples in the folder of a trial.

    Raises:
        StealtimeError: A file is missing, cut short, or does not have the columns of ``docs/run-format.md``.
    """
    samples = folder / f"{SAMPLES}.parquet"
    with _open_parquet(samples) as file:
        description = _read_description(samples, file.schema_arrow.metadata)
        columns = _read_columns(samples, file, _COLUMNS[description.layout])
    events = _read_events(folder / f"{EVENTS}.parquet")
    saturated = events.of_kind("saturated")
    saturated_gap = events.of_kind("saturated_gap")
    paused = events.of_kind("pause")
    is_gapped = description.layout == "gapped"
    try:
        return Series(
            columns["duration"],
            columns["gap"] if is_gapped else None,
            events.index[saturated],
            events.duration[saturated],
            events.index[saturated_gap] if is_gapped else None,
            events.duration[saturated_gap] if is_gapped else None,
            description.layout,
            description.interval,
            description.units_per_s,
            calibrated_floor_units,
            events.index[paused],
            events.duration[paused],
        )
    except ValueError as error:
        raise StealtimeError(f"{samples} cannot be used: {error}", hint=DAMAGED) from error


def read_durations(folder: Path) -> tuple[NDArray[np.float64], float]:
    """Read the durations alone in the folder of a trial.

    Returns:
        Shape (samples,), in units of the clock; and how many of them a second has.

    Raises:
        StealtimeError: As :func:`read_series`.
    """
    samples = folder / f"{SAMPLES}.parquet"
    with _open_parquet(samples) as file:
        description = _read_description(samples, file.schema_arrow.metadata)
        durations = _read_columns(samples, file, ("duration",))["duration"].astype(np.float64)
    events = _read_events(folder / f"{EVENTS}.parquet")
    saturated = events.of_kind("saturated")
    durations[events.index[saturated]] = events.duration[saturated]
    return durations, description.units_per_s


def read_ordinary(folder: Path) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Read when ordinary threads ran, or nobody, though the probe of a trial could have.

    Returns:
        Starts and durations in clock units from the start of sample 0, shape (stretches,).

    Raises:
        StealtimeError: As :func:`read_series`.
    """
    events = _read_events(folder / f"{EVENTS}.parquet")
    chosen = events.of_kind("ordinary")
    return events.start[chosen], events.duration[chosen]


def pool(parts: Sequence[Series], units_per_s: Sequence[float]) -> "SummaryDict":
    """Compute the figures of several repetitions as if they were one series; percentiles are exact.

    ``max_at_s`` counts from the start of sample 0 of the repetition ``max_part``.

    Args:
        parts: At least one.
        units_per_s: The clock rate of each.

    Raises:
        StealtimeError: The repetitions are counted by clocks of different rates.
    """
    if (message := different_rates(units_per_s)) is not None:
        raise StealtimeError(message, hint="look at each trial separately")
    return pooled_summary(parts)


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise StealtimeError(f"{path} does not exist", hint=DAMAGED) from error


def _open_parquet(path: Path) -> Any:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise StealtimeError(f"{path} does not exist", hint=DAMAGED) from error
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"{path} is not a whole Parquet file: {_one_line(error)}", hint=DAMAGED) from error


def _read_description(path: Path, metadata: dict[bytes, bytes] | None) -> _Description:
    try:
        document = json.loads((metadata or {})[PARQUET_KEY])
        layout = document["layout"]
        return _Description(
            layout=layout["name"] if layout["name"] in _COLUMNS else _unknown_layout(path, layout["name"]),
            interval=int(layout["interval"]) if layout["name"] == "periodic" else None,
            units_per_s=float(document["units_per_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StealtimeError(
            f"{path} does not say its layout and clock: {type(error).__name__} {_one_line(error)}", hint=DAMAGED
        ) from error


def _unknown_layout(path: Path, name: object) -> Literal["tiled"]:
    raise StealtimeError(f"{path} has the unknown layout {name!r}", hint="a newer stealtime may have written it")


def _read_columns(path: Path, file: Any, names: Sequence[str]) -> dict[str, NDArray[np.uint32]]:
    """Decode columns of type ``uint32`` into one array each, shape (rows,)."""
    for name in names:
        position = file.schema_arrow.get_field_index(name)
        if position < 0:
            raise StealtimeError(f"{path} has no column {name!r} but {file.schema_arrow.names}", hint=DAMAGED)
        found = file.schema_arrow.field(position)
        if found.type != pa.uint32():
            raise StealtimeError(f"the column {name!r} of {path} is {found.type}, not uint32", hint=DAMAGED)
    metadata = file.metadata
    columns = {name: _column(metadata.num_rows) for name in names}
    group_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    first_rows = np.concatenate(([0], np.cumsum(group_rows, dtype=np.int64)))

    def decode(groups: range) -> None:
        # A reader of its own: ParquetFile may not be shared between threads.
        with pq.ParquetFile(path, metadata=metadata) as reader:
            for group in groups:
                _decode_group(reader, group, columns, int(first_rows[group]), path)

    workers = max(1, min(len(os.sched_getaffinity(0)), len(group_rows)))
    try:
        with ThreadPoolExecutor(workers) as executor:
            shares = (range(worker, len(group_rows), workers) for worker in range(workers))
            list(executor.map(decode, shares))
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"{path} is damaged: {_one_line(error)}", hint=DAMAGED) from error
    return columns


def _column(rows: int) -> NDArray[np.uint32]:
    """Give room for a column, shape (rows,), in a file without a name where it is long."""
    if rows <= MAPPED_SAMPLES:
        return np.empty(rows, dtype=np.uint32)
    folder = os.environ.get("TMPDIR", _SCRATCH)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Reserved now: a disk that is full later would end the process with a signal.
            os.posix_fallocate(file.fileno(), 0, rows * np.dtype(np.uint32).itemsize)
            return np.memmap(file, dtype=np.uint32, mode="r+", shape=(rows,)).view(np.ndarray)
    except OSError as error:
        raise StealtimeError(
            f"{rows} samples do not fit into a file in {folder}: {error.strerror}",
            hint="free some space there, or name another folder in $TMPDIR",
        ) from error


def _decode_group(reader: Any, group: int, columns: dict[str, NDArray[np.uint32]], first_row: int, path: Path) -> None:
    """Decode one row group into its place; only one row group a thread exists besides the columns."""
    table = reader.read_row_group(group, columns=list(columns), use_threads=False)
    for name, column in columns.items():
        row = first_row
        for chunk in table.column(name).chunks:
            if chunk.null_count:
                raise StealtimeError(f"the column {name!r} of {path} has {chunk.null_count} empty rows", hint=DAMAGED)
            column[row : row + len(chunk)] = chunk.to_numpy(zero_copy_only=True)
            row += len(chunk)


def _read_events(path: Path) -> _Events:
    with _open_parquet(path) as file:
        for name, wanted in _EVENT_COLUMNS.items():
            position = file.schema_arrow.get_field_index(name)
            if position < 0:
                raise StealtimeError(f"{path} has no column {name!r} but {file.schema_arrow.names}", hint=DAMAGED)
            found = file.schema_arrow.field(position).type
            if found != wanted:
                raise StealtimeError(f"the column {name!r} of {path} is {found}, not {wanted}", hint=DAMAGED)
        try:
            table = file.read(columns=list(_EVENT_COLUMNS))
        except (pa.ArrowException, OSError) as error:
            raise StealtimeError(f"{path} is damaged: {_one_line(error)}", hint=DAMAGED) from error
    numbers = {name: table.column(name).to_numpy() for name in ("index", "start", "duration")}
    return _Events(kind=table.column("kind").combine_chunks(), **numbers)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
