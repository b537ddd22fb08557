"""From a run on disk to what its report says. The samples of one trial are in memory at a time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stealtime._core import Series
from stealtime.report.circumstances.limits import limits_of, remarks_of
from stealtime.report.neighbours import Bands, HostReading, bands_of, host_readings, surroundings_of
from stealtime.report.order import platform_order, probe_order, scenario_order
from stealtime.report.palette import looks_of
from stealtime.store.model import Cell, TrialRecord
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import CellSummary, RunSummary, Stats
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.page.content import DrawnRow, FigureSeries, Group, ReportContent
from stealtime.studies.latency.page.packing import Envelope, PackedEnvelope, buckets_a_cell, pack_envelope
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.studies.latency.rows import rows_of
from stealtime.studies.latency.wording import wording
from stealtime.vocabulary.errors import StealtimeError

WORST_A_TRIAL = 256
"""Embedded exactly; the rest of the samples is within the envelope's 0.07 %."""


@dataclass(frozen=True)
class _Measured:
    """A cell of which at least one repetition can be read."""

    summary: CellSummary
    statistics: Stats
    cell: Cell
    records: tuple[TrialRecord, ...]
    series: tuple[FigureSeries, ...]


def gather(run: Run, summary: RunSummary) -> ReportContent:
    """Compute all that the report of ``run`` says.

    Args:
        run: With trials of this study alone.
        summary: The figures of its cells.

    Raises:
        StealtimeError: A document of the run is damaged. Damaged samples only make their trial *damaged*.
    """
    trials: dict[str, list[Trial]] = {}
    for trial in run.trials:
        trials.setdefault(trial.record.cell.name, []).append(trial)
    # Tracing costs time: where a cell was measured without it too, figures are drawn from that alone.
    untraced = {trial.record.cell.name for trial in run.measured if not trial.record.cell.traced}
    shown = [cell for cell in summary.cells if not (cell.traced and cell.stored.untraced.name in untraced)]
    own = [trials[cell.stored.name] for cell in shown]
    buckets = buckets_a_cell(sum(map(len, own)))
    readings = host_readings(trial.record for trial in run.trials)
    found = [
        _measure(cell, of_cell, f"cell-{number}", buckets, readings)
        for number, (cell, of_cell) in enumerate(zip(shown, own, strict=True))
    ]
    measured = [one for one in found if one is not None]
    platforms = sorted(dict.fromkeys(cell.cell.platform for cell in measured), key=platform_order)
    return ReportContent(
        manifest=run.manifest,
        groups=tuple(_groups(measured, platforms)),
        limits=limits_of(run, summary),
        trials=tuple(trial.record for trial in run.trials),
        platforms=tuple(platforms),
        buckets=buckets,
        worst_a_trial=WORST_A_TRIAL,
        surroundings={
            name: words
            for name in dict.fromkeys(cell.cell.scenario for cell in measured)
            if (words := surroundings_of(name, run)) is not None
        },
        summary=summary.model_copy(update={"cells": shown}),
        looks=looks_of(platforms),
    )


def _measure(
    summary: CellSummary, trials: Sequence[Trial], identity: str, buckets: int, readings: Sequence[HostReading]
) -> _Measured | None:
    """Draw the figures of a cell; None where no repetition can be read."""
    # Repetitions whose clocks differ cannot be pooled; the worst one then speaks for the cell, which is invalid.
    stats = summary.stats or max(
        (trial.stats for trial in summary.trials if trial.stats is not None), key=lambda one: one.max_ns, default=None
    )
    records: list[TrialRecord] = []
    figures: list[FigureSeries] = []
    for trial in trials:
        series = _samples_of(trial)
        if series is None:
            continue
        name = f"{identity}-{trial.record.repetition}"
        # A cell has one floor, that of its table, in the figures of all its repetitions.
        floor_ns = None if stats is None else stats.floor_ns
        figures.append(_figure_series(trial.record, series, name, buckets, bands_of(trial, readings), floor_ns))
        records.append(trial.record)
    if not records or stats is None:
        return None
    return _Measured(summary, stats, records[0].cell, tuple(records), tuple(figures))


def _samples_of(trial: Trial) -> Series | None:
    """Give the samples of a trial; what cannot be read is among the limits."""
    if trial.record.outcome is None:
        return None
    try:
        return load_series(trial)
    except StealtimeError:
        return None


def _figure_series(
    record: TrialRecord, series: Series, identity: str, buckets: int, bands: Bands | None, floor_ns: float | None
) -> FigureSeries:
    summary = series.summary()
    envelope = _envelope(series, buckets, summary["span_s"])
    curve = series.percentile_curve()
    histogram = series.histogram()
    data = {
        "id": identity,
        "platform": record.cell.platform,
        "repetition": record.repetition,
        "label": record.cell.platform if record.repetition == 1 else f"{record.cell.platform} r{record.repetition}",
        "count": summary["count"],
        "floor_ns": summary["floor_ns"] if floor_ns is None else floor_ns,
        "max_ns": summary["max_ns"],
        "max_at_s": summary["max_at_s"],
        "envelope": {**envelope.description, "element": f"{identity}-envelope"},
        "neighbours": None if bands is None else asdict(bands),
        "worst": [[sample["start_s"], sample["duration_ns"]] for sample in series.worst(WORST_A_TRIAL)],
        "percentiles": {
            "tail_share": _rounded(curve["tail_share"]),
            "ns": _rounded(curve["value_ns"]),
        },
        "histogram": {
            "edges_ns": _rounded(histogram["log_edge_ns"]),
            "counts": np.asarray(histogram["log_count"]).tolist(),
        },
    }
    return FigureSeries(
        identity=identity,
        platform=record.cell.platform,
        repetition=record.repetition,
        data=data,
        envelope=envelope.planes,
    )


def _envelope(series: Series, buckets: int, span_s: float) -> PackedEnvelope:
    columns = series.envelope(buckets)
    envelope = Envelope(
        bucket_s=columns["bucket_s"],
        bucket=np.asarray(columns["bucket"], np.int64),
        min_ns=np.asarray(columns["min_ns"]),
        max_ns=np.asarray(columns["max_ns"]),
        max_at_s=np.asarray(columns["max_at_s"]),
    )
    return pack_envelope(envelope, span_s)


def _rounded(values: Any) -> list[float]:
    """Seven significant digits: more than any screen shows, half of what JSON would take for a float."""
    return [float(f"{value:.7g}") for value in np.asarray(values, np.float64)]


def _groups(measured: Sequence[_Measured], platforms: Sequence[str]) -> list[Group]:
    """Put the cells of one probe with its parameters in one scenario together."""
    by_subject: dict[tuple[str, ...], list[_Measured]] = {}
    for cell in measured:
        by_subject.setdefault(_subject(cell.cell), []).append(cell)
    scenarios = scenario_order(cell.cell.scenario for cell in measured)
    groups = []
    subjects = sorted(
        by_subject.values(),
        key=lambda cells: (scenarios.index(cells[0].cell.scenario), *probe_order(cells[0].cell)),
    )
    for number, unsorted in enumerate(subjects):
        cells = sorted(unsorted, key=lambda cell: platforms.index(cell.cell.platform))
        groups.append(
            Group(
                identity=f"group-{number}",
                scenario=cells[0].cell.scenario,
                probe=cells[0].cell.probe,
                parameter=PROBES[cells[0].cell.probe].parameter(cells[0].cell.parameters),
                title=PROBES[cells[0].cell.probe].describe(cells[0].cell.parameters),
                question=PROBES[cells[0].cell.probe].question.format(policy=" or ".join(_policies(cells))),
                measured=PROBES[cells[0].cell.probe].sample,
                rows=tuple(_rows(cells)),
                series=tuple(series for cell in cells for series in cell.series),
            )
        )
    return groups


def _policies(cells: Sequence[_Measured]) -> tuple[str, ...]:
    """Give the scheduling policies of the measuring threads: ordinary scheduling may have been chosen."""
    outcomes = [record.outcome for cell in cells for record in cell.records]
    return tuple(dict.fromkeys(outcome.placement.policy for outcome in outcomes if outcome is not None))


def _rows(cells: Sequence[_Measured]) -> list[DrawnRow]:
    beside = {row.cell.platform: row for row in rows_of([cell.summary for cell in cells])}
    return [
        DrawnRow(
            cell=one.summary,
            native=beside[one.cell.platform].native,
            statistics=one.statistics,
            repetitions=len(one.records),
            remarks=remarks_of(one.summary, one.records),
            periods=wording.describe_periods(one.summary.periods) if PROBES[one.cell.probe].is_tiled else (),
        )
        for one in cells
    ]


def _subject(cell: Cell) -> tuple[str, ...]:
    return (cell.scenario, cell.probe, *(f"{key}={value}" for key, value in sorted(cell.parameters.items())))
