"""The tables of a whole run, a row for each trial and for each of its durations: what DuckDB and ``show`` read.

They are an index: all that they hold is in the trials' own folders. Times and durations are in units of the trial's
clock, as there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.campaigns.validity import reasons_of
from stealtime.report.strangers import strangers_figures
from stealtime.store.counts import Counts
from stealtime.store.documents import COUNTS, LONGEST
from stealtime.store.model import TrialRecord
from stealtime.store.run import Trial
from stealtime.store.travelling import CountsFile, has_counts, read_counts
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TickProbe

TRIALS = "trials.parquet"
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
        ("started_at", pa.timestamp("us", tz="UTC")),
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
    ]
)
RUN_COUNTS_SCHEMA = pa.schema([("trial", pa.uint32()), ("duration", pa.uint64()), ("count", pa.uint64())])


@dataclass(frozen=True)
class TrialRow:
    """One trial of a run."""

    trial: int
    folder: str
    run: str
    cell: str
    platform: str
    scenario: str
    probe: str
    measurement: str
    traced: bool
    repetition: int
    host: str
    started_at: datetime
    state: str
    usable: bool
    why_not: str | None
    units_per_s: float | None
    samples: int | None
    watched_units: int | None
    longest_units: int | None
    longest_start_units: int | None
    rounded_samples: int | None
    loop_iterations: int | None
    limit: str | None
    limit_pause_ns: int | None
    cause: str | None
    """Of the longest sample, where it was traced; else what the trial itself says was found around it."""

    @property
    def watched_s(self) -> float:
        return 0.0 if self.units_per_s is None else (self.watched_units or 0) / self.units_per_s

    @property
    def is_counted(self) -> bool:
        """Whether it has counts that may be used."""
        return self.usable and self.samples is not None


def row_of(number: int, trial: Trial, run: str, host: str, counted: CountsFile | None) -> TrialRow:
    """Describe a trial in one row.

    Args:
        number: Its own in the tables.
        trial: What it is about.
        run: The run that measured it.
        host: As the merged run calls it.
        counted: Its counts; None where it has none.
    """
    record = trial.record
    reasons = reasons_of([record])[0]
    longest = None if counted is None else _longest(trial.folder)
    outcome = record.outcome
    limit = None if outcome is None else outcome.limit
    probe = None if outcome is None else outcome.request.probe
    return TrialRow(
        trial=number,
        folder=str(trial.folder),
        run=run,
        cell=record.cell.name,
        platform=record.cell.platform,
        scenario=record.cell.scenario,
        probe=record.cell.probe,
        measurement=record.cell.measurement,
        traced=record.cell.traced,
        repetition=record.repetition,
        host=host,
        started_at=record.started_at,
        state=record.state,
        usable=not reasons,
        why_not="; ".join(reasons) or None,
        units_per_s=None if counted is None else counted.units_per_s,
        samples=None if counted is None else counted.counts.samples,
        watched_units=None if counted is None else counted.watched_units,
        longest_units=None if longest is None else longest[1],
        longest_start_units=None if longest is None else longest[0],
        rounded_samples=None if counted is None else counted.counts.rounded,
        loop_iterations=probe.iterations if isinstance(probe, TickProbe) else None,
        limit=None if limit is None else str(limit.kind),
        limit_pause_ns=None if limit is None else limit.pause_ns,
        cause=(longest[2] if longest is not None else None) or _circumstance(record),
    )


def counts_of(trial: Trial) -> CountsFile | None:
    """Give the counts of a trial that is counted.

    Raises:
        StealtimeError: They are damaged, or cannot be made.
    """
    return read_counts(trial) if has_counts(trial) else None


def write_run_tables(folder: Path, rows: Sequence[TrialRow], counts: Sequence[tuple[int, Counts]]) -> None:
    """Write both tables.

    Raises:
        OSError: They cannot be written.
    """
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in TRIALS_SCHEMA}
    arrays = [pa.array(columns[field.name], type=field.type) for field in TRIALS_SCHEMA]
    pq.write_table(pa.Table.from_arrays(arrays, schema=TRIALS_SCHEMA), folder / TRIALS, compression="zstd")
    empty = np.empty(0, np.uint64)
    table = {
        "trial": np.concatenate([np.full(len(one.duration), number, np.uint32) for number, one in counts] or [empty]),
        "duration": np.concatenate([one.duration for _, one in counts] or [empty]),
        "count": np.concatenate([one.count for _, one in counts] or [empty]),
    }
    arrays = [pa.array(table[field.name], type=field.type) for field in RUN_COUNTS_SCHEMA]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=RUN_COUNTS_SCHEMA),
        folder / COUNTS,
        compression="zstd",
        use_dictionary=False,
        column_encoding={name: "DELTA_BINARY_PACKED" for name in table},
    )


def read_run_tables(folder: Path) -> tuple[list[TrialRow], dict[int, Counts]]:
    """Read both tables of a merged run.

    Raises:
        StealtimeError: One of them is missing or damaged.
    """
    try:
        rows = [TrialRow(**row) for row in pq.read_table(folder / TRIALS).to_pylist()]
        table = pq.read_table(folder / COUNTS)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise StealtimeError(
            f"the tables of {folder} are damaged: {' '.join(str(error).split())}", hint="merge the runs again"
        ) from error
    trial, duration, count = (table.column(name).to_numpy() for name in ("trial", "duration", "count"))
    return rows, dict(_parted(trial, duration, count))


def _parted(trial: Any, duration: Any, count: Any) -> Iterator[tuple[int, Counts]]:
    edges = np.flatnonzero(np.diff(trial)) + 1
    starts = [0, *edges.tolist()] if len(trial) else []
    for begin, end in zip(starts, [*starts[1:], len(trial)], strict=True):
        yield int(trial[begin]), Counts(duration[begin:end], count[begin:end])


def _longest(folder: Path) -> tuple[int, int, str | None] | None:
    try:
        table = pq.ParquetFile(folder / LONGEST, pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    if not table.num_rows:
        return None
    first = table.slice(0, 1).to_pylist()[0]
    return int(first["start"]), int(first["duration"]), first["cause"]


def _circumstance(record: TrialRecord) -> str | None:
    """Say what a trial itself tells of what took its CPU, where nothing was traced."""
    found = None if record.strangers is None else strangers_figures([record.strangers])
    return None if found is None else found.words
