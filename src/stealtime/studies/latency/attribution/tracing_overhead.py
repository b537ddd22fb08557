"""Tracing overhead: the same cell with and without tracing, pair by pair."""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from stealtime.campaigns.validity import is_usable
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.attribution.model import Shift, TracingOverhead

if TYPE_CHECKING:
    from stealtime._core import SummaryDict


def tracing_overheads(run: Run) -> list[TracingOverhead]:
    """Compare traced trials with untraced ones of the same cell and repetition, which ran next to each other.

    Only pairs count, so that what drifts from repetition to repetition falls out; a trial that is invalid has no part
    in one. A cell without a pair is left out.

    Args:
        run: A campaign with ``tracing = "both"``.

    Raises:
        StealtimeError: A document or the samples of a valid trial are damaged.
    """
    usable = [trial for trial in run.measured if is_usable(trial.record)]
    traced: dict[str, dict[int, Trial]] = {}
    untraced: dict[str, dict[int, Trial]] = {}
    for trial in usable:
        cell = trial.record.cell
        side = traced if cell.traced else untraced
        side.setdefault(cell.untraced.name, {})[trial.record.repetition] = trial
    costs = []
    for name, with_tracing in traced.items():
        without = untraced.get(name, {})
        pairs = [(with_tracing[number], without[number]) for number in sorted(with_tracing) if number in without]
        if pairs:
            costs.append(_compare(name, pairs))
    return costs


def _compare(name: str, pairs: Sequence[tuple[Trial, Trial]]) -> TracingOverhead:
    figures = [(_figures(traced), _figures(untraced)) for traced, untraced in pairs]
    return TracingOverhead(
        cell=name,
        pairs=len(pairs),
        # Not the calibrated floor, which may have been found before tracing began: the cheapest sample of the trial.
        floor_shift_ns=_shift([traced["min_ns"] - untraced["min_ns"] for traced, untraced in figures]),
        p999_shift_ns=_shift([traced["p999_ns"] - untraced["p999_ns"] for traced, untraced in figures]),
        max_shift_ns=_shift([traced["max_ns"] - untraced["max_ns"] for traced, untraced in figures]),
    )


def _figures(trial: Trial) -> "SummaryDict":
    return load_series(trial).summary()


def _shift(shifts: Sequence[float]) -> Shift:
    return Shift(median_ns=median(shifts), min_ns=min(shifts), max_ns=max(shifts))
