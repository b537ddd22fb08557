"""Makes the rows of a run that has none yet: each of its trials is read, and judged by its study."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.campaigns.validity import reasons_of
from stealtime.merging.pooling import PERCENTILES
from stealtime.merging.trial_row import CountedTrial, TrialRow
from stealtime.report.strangers import strangers_figures
from stealtime.store.counts import Counts
from stealtime.store.documents import CELLS, LONGEST
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run, Trial
from stealtime.store.travelling import CountsFile, has_counts, read_counts
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TickProbe

_PERCENTILES = {
    name: fraction
    for name, fraction in ((f"{ns.removesuffix('_ns')}_units", fraction) for ns, fraction in PERCENTILES.items())
    if name in TrialRow.__dataclass_fields__
}
_STALLS = {"stalls_1ms": 1_000_000, "stalls_4ms": 4_000_000}


def made_of(run: Run, remarks: list[str]) -> Iterator[CountedTrial]:
    """Give each trial of a run with its row and its counts; what is damaged is left out, and said in ``remarks``."""
    identity = run.manifest.identity
    name = run.run_id if identity is None else identity.name
    for number, trial in enumerate(_readable_trials(run, remarks)):
        counted: CountsFile | None = None
        try:
            counted = read_counts(trial) if has_counts(trial) else None
        except StealtimeError as error:
            remarks.append(f"{trial.record.trial_id} of {run.run_id} is not counted: {error.message}")
        row = _row_of(number, trial, run.run_id, name, counted)
        yield CountedTrial(replace(row, folder=f"{CELLS}/{trial.folder.name}"), counted)


def _readable_trials(run: Run, remarks: list[str]) -> Iterator[Trial]:
    try:
        yield from run.trials
    except StealtimeError:
        for folder in sorted((run.folder / CELLS).glob("[!.]*")):
            try:
                yield run.read_trial(folder)
            except StealtimeError as error:
                remarks.append(f"a trial of {run.run_id} is left out: {error.message}")


def _row_of(number: int, trial: Trial, run: str, host: str, counted: CountsFile | None) -> TrialRow:
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
        started_at=record.started_at.astimezone(UTC).replace(tzinfo=None),
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
        **_figures(counted, None if limit is None else limit.pause_ns),
    )


def _figures(counted: CountsFile | None, pause_ns: int | None) -> dict[str, int | None]:
    if counted is None or not counted.counts.samples:
        return dict.fromkeys(("min_units", *_PERCENTILES, *_STALLS))
    return figures_of_counts(counted.counts, counted.units_per_s, pause_ns)


def figures_of_counts(counts: Counts, units_per_s: float, pause_ns: int | None) -> dict[str, int | None]:
    """Give the figures that a row has of a trial's counts, in units.

    Args:
        counts: At least one sample.
        units_per_s: The rate of their clock.
        pause_ns: Of the kernel's limit on real-time threads that acted; samples that may be one are no stalls.
    """
    found: dict[str, int | None] = {"min_units": int(counts.duration[0])}
    found |= dict(zip(_PERCENTILES, counts.percentiles(list(_PERCENTILES.values())), strict=True))
    for name, over_ns in _STALLS.items():
        begin = int(counts.duration[0]) + int(over_ns * units_per_s / 1e9)
        chosen = counts.duration >= np.uint64(begin)
        if pause_ns is not None:
            # As the study of latency does: from half a pause on, a sample may be one.
            chosen &= counts.duration < np.uint64(int(0.5 * pause_ns * units_per_s / 1e9))
        found[name] = int(counts.count[chosen].sum())
    return found


def _longest(folder: Path) -> tuple[int, int, str | None] | None:
    try:
        file = pq.ParquetFile(folder / LONGEST, pre_buffer=False)
        table = file.read(columns=["start", "duration", "cause"], use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    if not table.num_rows:
        return None
    start, duration, cause = (column[0].as_py() for column in table.columns)
    return int(start), int(duration), cause


def _circumstance(record: TrialRecord) -> str | None:
    """Say what a trial itself tells of what took its CPU, where nothing was traced."""
    found = None if record.strangers is None else strangers_figures([record.strangers])
    return None if found is None else found.words
