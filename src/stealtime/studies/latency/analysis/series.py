"""A trial's samples in memory, ready for the statistics in Rust.

The column is decoded from Parquet straight into one array, a row group at a time and one thread a CPU, so that
50 million rows take 200 MB and never exist twice. From ``MAPPED_SAMPLES`` on they are in a file without a name, whose
pages the kernel may take out of memory again: a long run is read in a memory group that is smaller than its samples.
"""

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime._core import Digest, Pool, Series
from stealtime.store.columns import DAMAGED
from stealtime.store.durations import EVENTS, SAMPLES, Durations
from stealtime.store.partial import part_paths
from stealtime.store.run import Trial
from stealtime.store.tables import PARQUET_KEY
from stealtime.studies.latency.analysis.clock_rates import different_rates
from stealtime.vocabulary.errors import StealtimeError

__all__ = ["Series", "load_series", "pool_of", "read_durations", "read_ordinary", "read_series"]

_COLUMNS = {"tiled": ("duration",), "gapped": ("duration", "gap"), "periodic": ("duration",)}
_EVENT_COLUMNS = {"kind": pa.string(), "index": pa.uint64(), "start": pa.uint64(), "duration": pa.uint64()}

KEPT_SAMPLES = 64 << 20
"""All samples of most runs, and at least those of one trial."""
MAPPED_SAMPLES = 1 << 20
"""4 MiB: less is not worth a file, and a descriptor, of its own."""
UNMAPPED_SAMPLES = 64 << 20
"""256 MiB: so many are kept in memory where there is no room for such a file. A trial of a day has more."""
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
    found = [_status(path) for path in trial.tables(SAMPLES)]
    key = (trial.folder, max(one.st_mtime_ns for one in found), sum(one.st_size for one in found))
    if key not in _kept:
        _kept[key] = read_series(trial.folder, result.calibrated_floor_units, trial.parts)
    _kept.move_to_end(key)
    series = _kept[key]
    while len(_kept) > 1 and sum(map(len, _kept.values())) > KEPT_SAMPLES:
        _kept.popitem(last=False)
    return series


def read_series(folder: Path, calibrated_floor_units: int | None, parts: int | None = None) -> Series:
    """Read all samples in the folder of a trial.

    Args:
        folder: Its own.
        calibrated_floor_units: As its result has it.
        parts: In how many parts its tables are; None where each is one file.

    Raises:
        StealtimeError: A file is missing, cut short, or does not have the columns of ``docs/run-format.md``.
    """
    samples = _paths(folder, SAMPLES, parts)
    description = _read_description(samples[-1])
    columns = _read_columns(samples, _COLUMNS[description.layout])
    events = _read_events(_paths(folder, EVENTS, parts))
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
        raise StealtimeError(f"{samples[-1]} cannot be used: {error}", hint=DAMAGED) from error


def read_durations(trial: Trial) -> tuple[NDArray[np.float64], float]:
    """Read the durations alone of a trial.

    Returns:
        Shape (samples,), in units of the clock; and how many of them a second has.

    Raises:
        StealtimeError: As :func:`read_series`.
    """
    samples = trial.tables(SAMPLES)
    description = _read_description(samples[-1])
    durations = _read_columns(samples, ("duration",))["duration"].astype(np.float64)
    events = _read_events(trial.tables(EVENTS))
    saturated = events.of_kind("saturated")
    durations[events.index[saturated]] = events.duration[saturated]
    return durations, description.units_per_s


def read_ordinary(trial: Trial) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Read when ordinary threads ran, or nobody, though the probe of a trial could have.

    Returns:
        Starts and durations in clock units from the start of sample 0, shape (stretches,).

    Raises:
        StealtimeError: As :func:`read_series`.
    """
    events = _read_events(trial.tables(EVENTS))
    chosen = events.of_kind("ordinary")
    return events.start[chosen], events.duration[chosen]


def pool_of(digests: Sequence[Digest], units_per_s: Sequence[float]) -> Pool:
    """Give what makes figures of several repetitions as if they were one series; percentiles are exact.

    Of its summary ``max_at_s`` counts from the start of sample 0 of the repetition ``max_part``.

    Args:
        digests: Of each, at least one; their samples are added to the pool one after the other, in the same order.
        units_per_s: The clock rate of each.

    Raises:
        StealtimeError: The repetitions are counted by clocks of different rates.
    """
    if (message := different_rates(units_per_s)) is not None:
        raise StealtimeError(message, hint="look at each trial separately")
    return Pool(digests)


def _paths(folder: Path, name: str, parts: int | None) -> list[Path]:
    return [folder / f"{name}.parquet"] if parts is None else part_paths(folder, name, parts)


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


def _read_description(path: Path) -> _Description:
    with _open_parquet(path) as file:
        metadata = file.schema_arrow.metadata
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


@dataclass(frozen=True)
class _Group:
    """A row group of a file."""

    path: Path
    metadata: Any
    """Of the file."""
    number: int
    first_row: int
    """Of its rows, among those of all files."""


def _read_columns(paths: Sequence[Path], names: Sequence[str]) -> dict[str, NDArray[np.uint32]]:
    """Decode columns of type ``uint32``, which lie in files one after the other, into one array each, shape (rows,)."""
    groups: list[_Group] = []
    rows = 0
    for path in paths:
        with _open_parquet(path) as file:
            _check_columns(path, file.schema_arrow, dict.fromkeys(names, pa.uint32()))
            metadata = file.metadata
        for number in range(metadata.num_row_groups):
            groups.append(_Group(path, metadata, number, rows))
            rows += metadata.row_group(number).num_rows
    columns = {name: _column(rows) for name in names}
    workers = max(1, min(len(os.sched_getaffinity(0)), len(groups)))
    with ThreadPoolExecutor(workers) as executor:
        list(executor.map(lambda worker: _decode(groups[worker::workers], columns), range(workers)))
    return columns


def _check_columns(path: Path, schema: Any, wanted: Mapping[str, Any]) -> None:
    """See that a table has columns of some types.

    Raises:
        StealtimeError: It has not.
    """
    for name, kind in wanted.items():
        position = schema.get_field_index(name)
        if position < 0:
            raise StealtimeError(f"{path} has no column {name!r} but {schema.names}", hint=DAMAGED)
        found = schema.field(position).type
        if found != kind:
            raise StealtimeError(f"the column {name!r} of {path} is {found}, not {kind}", hint=DAMAGED)


def _decode(groups: Sequence[_Group], columns: dict[str, NDArray[np.uint32]]) -> None:
    """Decode row groups into their places."""
    for path, own in groupby(groups, key=lambda group: group.path):
        try:
            # A reader of its own: ParquetFile may not be shared between threads.
            found = list(own)
            with pq.ParquetFile(path, metadata=found[0].metadata) as reader:
                for group in found:
                    _decode_group(reader, group, columns)
        except (pa.ArrowException, OSError) as error:
            raise StealtimeError(f"{path} is damaged: {_one_line(error)}", hint=DAMAGED) from error


def _column(rows: int) -> NDArray[np.uint32]:
    """Give room for a column, shape (rows,), in a file without a name where it is long."""
    if rows < MAPPED_SAMPLES:
        return np.empty(rows, dtype=np.uint32)
    folder = os.environ.get("TMPDIR", _SCRATCH)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Reserved now: a disk that is full later would end the process with a signal.
            os.posix_fallocate(file.fileno(), 0, rows * np.dtype(np.uint32).itemsize)
            return np.memmap(file, dtype=np.uint32, mode="r+", shape=(rows,)).view(np.ndarray)
    except OSError as error:
        if rows <= UNMAPPED_SAMPLES:
            return np.empty(rows, dtype=np.uint32)
        raise StealtimeError(
            f"{rows} samples do not fit into a file in {folder}: {error.strerror}",
            hint="free some space there, or name another folder in $TMPDIR",
        ) from error


def _decode_group(reader: Any, group: _Group, columns: dict[str, NDArray[np.uint32]]) -> None:
    """Decode one row group into its place; only one row group a thread exists besides the columns."""
    table = reader.read_row_group(group.number, columns=list(columns), use_threads=False)
    for name, column in columns.items():
        row = group.first_row
        for chunk in table.column(name).chunks:
            if chunk.null_count:
                raise StealtimeError(
                    f"the column {name!r} of {group.path} has {chunk.null_count} empty rows", hint=DAMAGED
                )
            column[row : row + len(chunk)] = chunk.to_numpy(zero_copy_only=True)
            row += len(chunk)


def _read_events(paths: Sequence[Path]) -> _Events:
    tables = []
    for path in paths:
        with _open_parquet(path) as file:
            _check_columns(path, file.schema_arrow, _EVENT_COLUMNS)
            try:
                tables.append(file.read(columns=list(_EVENT_COLUMNS)).replace_schema_metadata())
            except (pa.ArrowException, OSError) as error:
                raise StealtimeError(f"{path} is damaged: {_one_line(error)}", hint=DAMAGED) from error
    table = pa.concat_tables(tables)
    numbers = {name: table.column(name).to_numpy() for name in ("index", "start", "duration")}
    return _Events(kind=table.column("kind").combine_chunks(), **numbers)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
