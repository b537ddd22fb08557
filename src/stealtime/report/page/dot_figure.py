"""Dots with intervals, a row each on one axis, drawn without a script: many ratios at a glance, or when what happened.

They are elements of the page and not an SVG: names and numbers keep their size on a narrow screen, and only the axis
gives way. Pure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.line_figure import MARKS, Axis, round_values
from stealtime.report.page.row_figure import edge_of
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import Look

_TICKS = 5
_ROOM = 0.04
"""Of the axis, left at either end."""
_FACTORS = (1, 2, 5)


@dataclass(frozen=True)
class Row:
    """A value with its interval, or something that lasts, by places on the axis."""

    name: str
    words: str
    """What it is in numbers; stands beside the row, so that nothing has to be read off."""
    at: float | None = None
    """None where there is no dot."""
    low: float | None = None
    """The ends of its interval, or of what lasts."""
    high: float | None = None
    look: Look | None = None
    """Of the dot; without one it has the colour of the text."""

    @property
    def mark(self) -> str:
        return MARKS["circle" if self.look is None else self.look.symbol]


@dataclass(frozen=True)
class Group:
    """Rows below a title; it may be empty where there is only one group."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class DotFigure:
    """Rows on one axis."""

    label: str
    """What it shows, for those who cannot see it."""
    axis: Axis
    groups: tuple[Group, ...]
    level: float | None = None
    """A place on the axis that means something: no difference, or the fault."""

    @property
    def edge(self) -> float:
        """The width that the words of a mark at an end of the axis take beyond it, in letters' heights."""
        return edge_of(self.axis)

    def percent(self, value: float) -> float:
        """Give the distance from the left."""
        return round(100.0 * self.axis.share(value), 2)


def draw_dots(figure: DotFigure) -> Markup:
    return rendered(templates_of("stealtime.report.page"), "dot_figure.html.jinja", {"figure": figure})


def ratio_axis(title: str, ratios: Sequence[float]) -> Axis:
    """Give a logarithmic axis of ratios that holds 1; values stand on it by their :func:`logarithm`.

    Args:
        title: Of the axis.
        ratios: Larger than 0; may be empty.
    """
    return _logarithmic(title, [1.0, *ratios], lambda value: f"{value:g}\N{MULTIPLICATION SIGN}")


def log_duration_axis(title: str, values_ns: Sequence[float]) -> Axis:
    """Give a logarithmic axis of durations, no longer than they need; values stand on it by their :func:`logarithm`.

    Args:
        title: Of the axis.
        values_ns: At least one.
    """
    values = [max(value, 1.0) for value in values_ns]
    return _logarithmic(title, values, lambda value: notation.trimmed_duration(round(value)))


def time_axis(title: str, moments_ns: Sequence[float], in_words: Callable[[float], str]) -> Axis:
    """Give a linear axis of time.

    Args:
        title: Of the axis.
        moments_ns: At least one.
        in_words: Writes a moment.
    """
    low, high = min(moments_ns), max(moments_ns)
    room = _ROOM * max(high - low, 1.0)
    low, high = low - room, high + room
    return Axis(title, low, high, tuple((value, in_words(value)) for value in round_values(low, high, _TICKS)))


def _logarithmic(title: str, values: Sequence[float], in_words: Callable[[float], str]) -> Axis:
    low, high = min(values), max(values)
    # Where all are alike there is no scale to choose.
    room = max(_ROOM * math.log10(high / low), math.log10(1.05))
    ends = math.log10(low) - room, math.log10(high) + room
    marks = _marks(10.0 ** ends[0], 10.0 ** ends[1])
    return Axis(title, *ends, tuple((logarithm(value), in_words(value)) for value in marks))


def logarithm(value: float) -> float:
    """Give the place of a value, larger than 0, on a logarithmic axis."""
    return math.log10(value)


def _marks(low: float, high: float) -> list[float]:
    """Give round values between two ends, about as many whatever lies between them."""
    if high < 4 * low:
        return [value for value in round_values(low, high, _TICKS) if value > 0]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = _FACTORS if high < 100 * low else (1,)
    marks = [factor * 10.0**power for power in powers for factor in factors]
    step = 1 + sum(low <= value <= high for value in marks) // (2 * _TICKS)
    return [value for value in marks if low <= value <= high][::step]
