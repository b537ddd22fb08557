"""The figures of a run in Bencher Metric Format (bencher.dev/docs/reference/bencher-metric-format), version 0.

A cell is a benchmark, and a figure a measure: its name as a slug, which ends with the unit. Bencher takes the ends of
an interval for what they are; a figure without one has none. What is absent is left out, as 0 would be a value.
"""

import math
from dataclasses import dataclass, field

from stealtime.report.cells.model import CellFigures
from stealtime.report.studies import study_of
from stealtime.report.summary import RunSummary

_LONGEST_NAME = 1024
"""Of a benchmark, for Bencher."""
_LONGEST_SLUG = 64
"""Of a measure."""
_ENDS = ("_low", "_high")
"""Columns that are the ends of an interval, not figures."""


@dataclass
class BencherMetrics:
    """What goes to Bencher, and what does not."""

    benchmarks: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    absent: int = 0
    """Figures that cells have no value of."""
    invalid: list[str] = field(default_factory=list)
    """Cells that may not be used."""


def bencher_metrics(summary: RunSummary) -> BencherMetrics:
    """Give the figures of all valid cells."""
    told = BencherMetrics()
    for cell in summary.cells:
        name = cell.stored.name[:_LONGEST_NAME]
        if not cell.valid:
            told.invalid.append(name)
            continue
        measures, absent = _measures(cell)
        told.absent += absent
        if measures:
            told.benchmarks[name] = measures
    return told


def _measures(cell: CellFigures) -> tuple[dict[str, dict[str, float]], int]:
    columns, absent = cell.columns, 0
    # A percentile that stands for the maximum, as there are too few samples, is none.
    unresolved = str(columns.get("unresolved") or "").split()
    measures: dict[str, dict[str, float]] = {
        _slug(name): {"value": one.value, "lower_value": one.low, "upper_value": one.high}
        for name, one in study_of(cell.probe).intervals(cell).items()
    }
    for name, value in columns.items():
        if name == "unresolved" or name.endswith(_ENDS) or _slug(name) in measures:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or name in unresolved:
            absent += 1
            continue
        measures[_slug(name)] = {"value": float(str(value))}
    return measures, absent


def _slug(name: str) -> str:
    return name.replace("_", "-").lower()[:_LONGEST_SLUG]
