"""The figures of the page as shapes, in percent of their axis: what the templates draw as SVG. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.report.notation import three_digits
from stealtime.report.page.line_figure import Axis, round_values
from stealtime.report.page.plane import percent
from stealtime.report.page.row_figure import RowFigure
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import StretchCell

_TICKS = 6
COLOURS = (
    "#8c959f", "#c24e00", "#0072b2", "#6a3fb5", "#66c2a5", "#007a5a", "#8c3b2a", "#e78ac3", "#a8487f", "#e3b341",
    "#56b4e9", "#4d6b1a", "#d0d7de",
)  # fmt: skip
"""Of the parts of lost seconds in their order, the last one of what is unexplained."""


@dataclass(frozen=True)
class Measured:
    """A row of the figure of stretch: places from the left."""

    title: str
    words: str
    at: float
    low: float | None
    high: float | None
    predicted: float | None
    predicted_words: str
    guests: list[tuple[float, str]]
    """Each of several guests that did the same, in words."""


@dataclass(frozen=True)
class Part:
    """A piece of a bar."""

    name: str
    words: str
    left: float
    width: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """A row of the figure of lost seconds."""

    title: str
    parts: list[Part]
    total: float
    """The place of the whole difference."""
    words: str


def place(axis: Axis, value: float) -> float:
    """Give the distance from the left, in percent."""
    return percent(axis.share(value))


def marked(low: float, high: float, unit: str = "", title: str = "") -> Axis:
    """Give an axis between two ends, with marks at round values."""
    ticks = tuple((value, f"{value:g}{unit}") for value in round_values(low, high, _TICKS))
    return Axis(title, low, high, ticks)


def stretch_axis(cells: Sequence[StretchCell]) -> Axis:
    """From no stretch to a little more than the largest."""
    ends = [one.high or one.ratio or 1.0 for cell in cells if (one := cell.against_native) is not None]
    ends += [
        each.against_native.ratio or 1.0 for cell in cells for each in cell.alike if each.against_native is not None
    ]
    ends += [value for cell in cells if (value := predicted_against_native(cell, cells)) is not None]
    return marked(0.0, 1.08 * max([1.0, *ends]), title="times as long")


@dataclass(frozen=True)
class StretchFigure(RowFigure):
    """Measured beside predicted."""

    rows: list[Measured]

    @property
    def one(self) -> float:
        """The place of no stretch."""
        return place(self.axis, 1.0)


@dataclass(frozen=True)
class LostFigure(RowFigure):
    """Lost seconds in parts."""

    rows: list[Bar]


def stretch_figure(cells: Sequence[StretchCell]) -> StretchFigure:
    axis = stretch_axis(cells)
    label = "Stretch against native with its interval, and what was predicted"
    return StretchFigure(label, axis, measured_rows(cells, axis))


def lost_figure(cells: Sequence[StretchCell]) -> LostFigure:
    axis = lost_axis(cells)
    return LostFigure("Lost seconds by their causes", axis, lost_bars(cells, axis))


def measured_rows(cells: Sequence[StretchCell], axis: Axis) -> list[Measured]:
    """Give a row for each cell that was measured against native."""
    rows = []
    for cell in cells:
        one = cell.against_native
        if one is None or one.ratio is None:
            continue
        predicted = predicted_against_native(cell, cells)
        ends = None if one.low is None or one.high is None else (three_digits(one.low), three_digits(one.high))
        rows.append(
            Measured(
                title=cell.title,
                words=f"{three_digits(one.ratio)} ({'not judged' if ends is None else ' to '.join(ends)})",
                at=place(axis, one.ratio),
                low=None if one.low is None else place(axis, one.low),
                high=None if one.high is None else place(axis, one.high),
                predicted=None if predicted is None else place(axis, predicted),
                predicted_words="" if predicted is None else f"predicted {three_digits(predicted)}",
                guests=[
                    (place(axis, ratio), f"{guest.name}: {three_digits(ratio)}")
                    for guest in cell.alike
                    if guest.against_native is not None and (ratio := guest.against_native.ratio) is not None
                ],
            )
        )
    return rows


def predicted_against_native(cell: StretchCell, cells: Sequence[StretchCell]) -> float | None:
    """Give the model's stretch against native: that against the guest alone, times the measured one of that."""
    alone, native = cell.against_alone, cell.against_native
    if cell.predicted is None or cell.predicted.because or alone is None or native is None:
        return None
    base = next((one for one in cells if one.title == alone.base and one.parameters == cell.parameters), None)
    if base is None or base.against_native is None or base.against_native.ratio is None:
        return None
    return base.against_native.ratio * cell.predicted.shared


def lost_axis(cells: Sequence[StretchCell]) -> Axis:
    """From the sum of what was gained to the sum of what was lost."""
    values = [[*one.parts_s.values(), one.unexplained_s] for cell in cells if (one := cell.lost) is not None]
    low = min([0.0, *(sum(part for part in parts if part < 0) for parts in values)])
    high = max([1e-3, *(sum(part for part in parts if part > 0) for parts in values)])
    return marked(1.05 * low, 1.05 * high, " s", "lost seconds")


def lost_bars(cells: Sequence[StretchCell], axis: Axis) -> list[Bar]:
    """Stack what was lost to the right of nought, and what was gained to its left."""
    bars = []
    for cell in cells:
        lost = cell.lost
        if lost is None:
            continue
        values = {**{words: lost.parts_s.get(name) for name, words in PARTS.items()}, "unexplained": lost.unexplained_s}
        parts, ends = [], {True: 0.0, False: 0.0}
        for (name, value), colour in zip(values.items(), COLOURS, strict=True):
            if value is None:
                continue
            begin = ends[value > 0]
            ends[value > 0] = begin + value
            places = sorted((place(axis, begin), place(axis, begin + value)))
            parts.append(Part(name, f"{name}: {value:.3f} s", places[0], round(places[1] - places[0], 2), colour))
        bars.append(Bar(cell.title, parts, place(axis, lost.lost_s), f"{lost.lost_s:.3f} s longer"))
    return bars


def legend() -> list[tuple[str, str]]:
    return list(zip((*PARTS.values(), "unexplained"), COLOURS, strict=True))
