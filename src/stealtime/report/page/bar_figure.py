"""Stacked bars, a row each, drawn without a script; pure. Colours are those of the palette."""

from dataclasses import dataclass

from markupsafe import Markup

from stealtime.report.page.line_figure import Axis
from stealtime.report.page.plane import percent
from stealtime.report.page.row_figure import RowFigure
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import Look


@dataclass(frozen=True)
class Part:
    """A piece of a bar."""

    name: str
    value: float
    words: str


@dataclass(frozen=True)
class Bar:
    """One row."""

    title: str
    parts: tuple[Part, ...]
    words: str
    """Its whole length."""


@dataclass(frozen=True)
class BarFigure(RowFigure):
    """Bars on one axis that begins at 0."""

    axis: Axis
    rows: tuple[Bar, ...]
    looks: dict[str, Look]
    """Of each part, in the order of the legend."""

    def pieces(self, bar: Bar) -> list[tuple[Part, float, float]]:
        """Give each part of a bar with its left end and its width, in percent."""
        found, end = [], 0.0
        for part in bar.parts:
            left, right = percent(self.axis.share(end)), percent(self.axis.share(end + part.value))
            found.append((part, left, round(right - left, 2)))
            end += part.value
        return found


def draw_bars(figure: BarFigure) -> Markup:
    return rendered(templates_of("stealtime.report.page"), "bar_figure.html.jinja", {"figure": figure})
