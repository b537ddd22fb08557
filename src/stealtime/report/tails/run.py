"""The tails of all cells of a run."""

from stealtime.report.cells.figures import NamedCell
from stealtime.report.cells.model import CellFigures, plain_cells
from stealtime.report.studies import study_of
from stealtime.report.summary import RunSummary
from stealtime.report.tails.document import TailEstimate, Tails
from stealtime.report.tails.estimate import CONFIDENCE, LEVEL, SEED, estimate_tail
from stealtime.report.tails.series import TailSeries
from stealtime.store.run import Run, Trial


def tails_of(run: Run, summary: RunSummary, seed: int = SEED) -> Tails:
    """Estimate the tail of every cell whose study gives its values; it takes a second each.

    Args:
        run: What was measured.
        summary: Its figures.
        seed: Of the samples that fits are held against.

    Raises:
        StealtimeError: Samples cannot be read.
    """
    trials: dict[str, list[Trial]] = {}
    for trial in run.measured:
        trials.setdefault(trial.record.cell.name, []).append(trial)
    cells = []
    for name, own in trials.items():
        cell = next((one for one in plain_cells(summary.cells) if one.stored.name == name), None)
        ordered = sorted(own, key=lambda one: one.record.repetition)
        if cell is not None and (series := study_of(cell.probe).tail_series(cell, ordered)) is not None:
            cells.append(_estimate(cell, series, seed))
    return Tails(
        run_id=run.run_id,
        confidence_percent=100 * CONFIDENCE,
        level_percent=100 * LEVEL,
        seed=seed,
        cells=tuple(cells),
    )


def _estimate(cell: CellFigures, series: TailSeries, seed: int) -> TailEstimate:
    events = len(series.values_ns)
    return TailEstimate(
        **NamedCell.naming(cell),
        events=events,
        events_per_hour=3600 * series.events_per_s,
        watched_s=events / series.events_per_s,
        longest_ns=float(series.values_ns.max()) if events else None,
        **vars(estimate_tail(series, seed)),
    )
