"""From a run on disk to its figures; the samples of one cell are in memory at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stealtime._core import Series
from stealtime.report.cells.records import cell_figures, measured_trials
from stealtime.report.cells.surroundings import MeasuredTrial
from stealtime.report.summary import summarize as summarize_run
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.clock_rates import rate_of
from stealtime.studies.latency.analysis.held_back import find_held_back, limit_of, pool_held_back
from stealtime.studies.latency.analysis.model import (
    CellSummary,
    HeldBack,
    Period,
    RunSummary,
    Stalls,
    Stats,
    TrialSummary,
    own_part,
)
from stealtime.studies.latency.analysis.periods import join_periods
from stealtime.studies.latency.analysis.series import load_series, pool
from stealtime.studies.latency.analysis.stalls import find_stalls
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TickProbe, TrialOutcome


@dataclass(frozen=True)
class _Read:
    """A trial and its samples, or why there are none."""

    trial: Trial
    series: Series | None
    told: MeasuredTrial


def summarize(run: Run) -> RunSummary:
    """Compute the figures of the cells of ``run`` that are this study's.

    Raises:
        StealtimeError: A document of the run is damaged.
    """
    return own_part(summarize_run(run))


def summarize_cell(trials: Sequence[Trial]) -> CellSummary:
    """Compute the figures of one cell from all its trials, at least one."""
    ordered = sorted(trials, key=lambda trial: trial.record.repetition)
    records = [trial.record for trial in ordered]
    reads = [_read(*one) for one in zip(ordered, measured_trials(records), strict=True)]
    measured = [read for read in reads if read.series is not None]
    pooled = [read for read in measured if read.told.valid] or measured
    trials_of = {read.trial.folder: _trial_summary(read) for read in reads}
    return CellSummary(
        **cell_figures(records, list(trials_of.values())),
        stats=_pooled_stats(pooled),
        periods=_periods(pooled) if PROBES[ordered[0].record.cell.probe].is_tiled else [],
        held_back=pool_held_back([trials_of[read.trial.folder] for read in pooled]),
    )


def to_stats(figures: Any) -> Stats:
    """Take the fields of :class:`Stats` from what the Rust core computed."""
    return Stats(**{name: figures[name] for name in Stats.model_fields})


def _read(trial: Trial, told: MeasuredTrial) -> _Read:
    if not told.is_measured:
        return _Read(trial, None, told)
    try:
        return _Read(trial, load_series(trial), told)
    except StealtimeError as error:
        damage = {"valid": False, "reasons": [*told.reasons, error.message]}
        return _Read(trial, None, told.model_copy(update=damage))


def _pooled_stats(reads: Sequence[_Read]) -> Stats | None:
    parts = [read.series for read in reads if read.series is not None]
    if not parts:
        return None
    try:
        return to_stats(pool(parts, [rate_of(outcome.clock) for outcome in _outcomes(reads)]))
    except StealtimeError:
        # Of different clocks: the rule says so of every trial (``clock_rates.unusable``).
        return None


def _outcomes(reads: Sequence[_Read]) -> list[TrialOutcome]:
    return [read.trial.record.outcome for read in reads if read.trial.record.outcome is not None]


def _periods(reads: Sequence[_Read]) -> list[Period]:
    return join_periods(
        [(read.trial.record.repetition, read.series.periods()) for read in reads if read.series is not None]
    )


def _trial_summary(read: _Read) -> TrialSummary:
    stats, held_back = None if read.series is None else to_stats(read.series.summary()), _held_back(read)
    return TrialSummary(
        **dict(read.told),
        stats=stats,
        held_back=held_back,
        stalls=_stalls(read, stats, held_back),
        folder=str(read.trial.folder),
        loop_iterations=_loop_iterations(read.trial.record),
    )


def _held_back(read: _Read) -> HeldBack | None:
    limit = limit_of(read.trial.record)
    return None if read.series is None or limit is None else find_held_back(read.trial, read.series, limit)


def _stalls(read: _Read, stats: Stats | None, held_back: HeldBack | None) -> Stalls | None:
    if read.series is None or stats is None or read.trial.record.outcome is None:
        return None
    return find_stalls(read.series, stats, read.trial.record.outcome.clock.units_per_s, held_back)


def _loop_iterations(record: TrialRecord) -> int | None:
    probe = None if record.outcome is None else record.outcome.request.probe
    return probe.iterations if isinstance(probe, TickProbe) else None
