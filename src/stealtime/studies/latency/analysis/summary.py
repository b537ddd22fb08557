"""From a run on disk to its figures; the samples of one cell are in memory at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stealtime._core import Series
from stealtime.report.circumstances.figures import cell_circumstances, trial_circumstances
from stealtime.report.summary import summarize as summarize_run
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.held_back import find_held_back, limit_of, pool_held_back
from stealtime.studies.latency.analysis.model import (
    CellSummary,
    HeldBack,
    Period,
    RunSummary,
    Stats,
    TrialSummary,
    own_part,
)
from stealtime.studies.latency.analysis.periods import join_periods
from stealtime.studies.latency.analysis.series import load_series, pool
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TickProbe, TrialOutcome


@dataclass(frozen=True)
class _Read:
    """A trial and its samples, or why there are none."""

    trial: Trial
    series: Series | None
    reasons: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        return self.series is not None and not self.reasons


def summarize(run: Run) -> RunSummary:
    """Compute the figures of the cells of ``run`` that are this study's.

    Raises:
        StealtimeError: A document of the run is damaged.
    """
    return own_part(summarize_run(run))


def summarize_cell(trials: Sequence[Trial]) -> CellSummary:
    """Compute the figures of one cell from all its trials, at least one."""
    ordered = sorted(trials, key=lambda trial: trial.record.repetition)
    reads = [_read(trial) for trial in ordered]
    measured = [read for read in reads if read.series is not None]
    pooled = [read for read in measured if read.is_valid] or measured
    stats, trouble = _pooled_stats(pooled)
    trials_of = {read.trial.folder: _trial_summary(read) for read in reads}
    used = [trials_of[read.trial.folder] for read in pooled]
    reasons = _distinct([reason for read in reads for reason in read.reasons] + trouble)
    return CellSummary(
        **cell_circumstances([trial.record for trial in ordered], used),
        valid=not reasons,
        reasons=reasons,
        stats=stats,
        periods=_periods(pooled) if PROBES[ordered[0].record.cell.probe].is_tiled else [],
        trials=list(trials_of.values()),
        held_back=pool_held_back(used),
    )


def to_stats(figures: Any) -> Stats:
    """Take the fields of :class:`Stats` from what the Rust core computed."""
    return Stats(**{name: figures[name] for name in Stats.model_fields})


def _read(trial: Trial) -> _Read:
    record = trial.record
    if record.outcome is None:
        message = record.failure.message if record.failure is not None else "the trial has no outcome"
        return _Read(trial, None, (message,))
    try:
        series = load_series(trial)
    except StealtimeError as error:
        return _Read(trial, None, (error.message,))
    invalidating = (finding.text for finding in record.outcome.findings if finding.level == "invalidates")
    return _Read(trial, series, tuple(invalidating))


def _pooled_stats(reads: Sequence[_Read]) -> tuple[Stats | None, list[str]]:
    parts = [read.series for read in reads if read.series is not None]
    if not parts:
        return None, []
    try:
        return to_stats(pool(parts, [outcome.clock.units_per_s for outcome in _outcomes(reads)])), []
    except StealtimeError as error:
        return None, [error.message]


def _outcomes(reads: Sequence[_Read]) -> list[TrialOutcome]:
    return [read.trial.record.outcome for read in reads if read.trial.record.outcome is not None]


def _periods(reads: Sequence[_Read]) -> list[Period]:
    return join_periods(
        [(read.trial.record.repetition, read.series.periods()) for read in reads if read.series is not None]
    )


def _trial_summary(read: _Read) -> TrialSummary:
    return TrialSummary(
        **trial_circumstances(read.trial.record),
        valid=read.is_valid,
        reasons=list(read.reasons),
        stats=None if read.series is None else to_stats(read.series.summary()),
        held_back=_held_back(read),
        folder=str(read.trial.folder),
        loop_iterations=_loop_iterations(read.trial.record),
    )


def _held_back(read: _Read) -> HeldBack | None:
    record, limit = read.trial.record, limit_of(read.trial.record)
    if read.series is None or limit is None or record.outcome is None:
        return None
    return find_held_back(read.series, record.outcome.clock.units_per_s, limit)


def _loop_iterations(record: TrialRecord) -> int | None:
    probe = None if record.outcome is None else record.outcome.request.probe
    return probe.iterations if isinstance(probe, TickProbe) else None


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))
