"""From a run on disk to its figures; the samples of one trial are in memory at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stealtime._core import Digest, Series
from stealtime.report.cells.records import cell_figures, measured_trials
from stealtime.report.cells.surroundings import MeasuredTrial
from stealtime.report.summarizing import summarize as summarize_run
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
from stealtime.studies.latency.analysis.series import load_series, pool_of
from stealtime.studies.latency.analysis.stalls import find_stalls
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TickProbe


@dataclass(frozen=True)
class _Read:
    """What was read of a trial; its samples are gone by then."""

    trial: Trial
    summary: TrialSummary
    digest: Digest | None
    """None if there are no samples, or they cannot be read."""


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
    measured = [read for read in reads if read.digest is not None]
    pooled = [read for read in measured if read.summary.valid] or measured
    stats, periods = _together(pooled, has_periods=PROBES[ordered[0].record.cell.probe].is_tiled)
    return CellSummary(
        **cell_figures(records, [read.summary for read in reads]),
        stats=stats,
        periods=periods,
        held_back=pool_held_back([read.summary for read in pooled]),
    )


def to_stats(figures: Any) -> Stats:
    """Take the fields of :class:`Stats` from what the Rust core computed."""
    return Stats(**{name: figures[name] for name in Stats.model_fields})


def _read(trial: Trial, told: MeasuredTrial) -> _Read:
    if not told.is_measured:
        return _Read(trial, _trial_summary(trial, told, None), None)
    try:
        series = load_series(trial)
    except StealtimeError as error:
        damage = {"valid": False, "reasons": [*told.reasons, error.message]}
        return _Read(trial, _trial_summary(trial, told.model_copy(update=damage), None), None)
    return _Read(trial, _trial_summary(trial, told, series), series.digest())


def _together(reads: Sequence[_Read], *, has_periods: bool) -> tuple[Stats | None, list[Period]]:
    """Compute the figures of several repetitions as one, and what repeats in them.

    Percentiles are found by a second look at all samples, a repetition after the other; those that are still kept are
    not read again.
    """
    if not reads:
        return None, []
    digests = [read.digest for read in reads if read.digest is not None]
    try:
        outcomes = [one for read in reads if (one := read.trial.record.outcome) is not None]
        pool = pool_of(digests, [rate_of(outcome.clock) for outcome in outcomes])
    except StealtimeError:
        # Of different clocks: the rule says so of every trial (``clock_rates.unusable``).
        pool = None
    found = []
    for read in reads:
        series = load_series(read.trial)
        if pool is not None:
            pool.add(series)
        if has_periods:
            found.append((read.trial.record.repetition, series.periods()))
    return None if pool is None else to_stats(pool.summary()), join_periods(found)


def _trial_summary(trial: Trial, told: MeasuredTrial, series: Series | None) -> TrialSummary:
    stats = None if series is None else to_stats(series.summary())
    held_back = _held_back(trial, series)
    return TrialSummary(
        **dict(told),
        stats=stats,
        held_back=held_back,
        stalls=_stalls(trial, series, stats, held_back),
        folder=str(trial.folder),
        loop_iterations=_loop_iterations(trial.record),
    )


def _held_back(trial: Trial, series: Series | None) -> HeldBack | None:
    limit = limit_of(trial.record)
    return None if series is None or limit is None else find_held_back(trial, series, limit)


def _stalls(trial: Trial, series: Series | None, stats: Stats | None, held_back: HeldBack | None) -> Stalls | None:
    if series is None or stats is None or trial.record.outcome is None:
        return None
    return find_stalls(series, stats, trial.record.outcome.clock.units_per_s, held_back)


def _loop_iterations(record: TrialRecord) -> int | None:
    probe = None if record.outcome is None else record.outcome.request.probe
    return probe.iterations if isinstance(probe, TickProbe) else None
