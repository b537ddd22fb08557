"""Stacked bars as SVG, drawn without a script; pure. Colours are those of the palette."""

from dataclasses import dataclass

from markupsafe import Markup

from stealtime.report.page.line_figure import Axis, room_for
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import Look

WIDTH = 640.0
"""Of the drawing area, in the units of the SVG."""
ROW = 30.0


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
    total_words: str


@dataclass(frozen=True)
class BarFigure:
    """Bars on one axis that begins at 0."""

    label: str
    """What it shows, for those who cannot see it."""
    axis: Axis
    bars: tuple[Bar, ...]
    looks: dict[str, Look]
    """Of each part, in the order of the legend."""

    @property
    def left(self) -> float:
        """The width that the titles take."""
        return room_for([bar.title for bar in self.bars])

    def pieces(self, bar: Bar) -> list[tuple[Part, float, float]]:
        """Give each part of a bar with its left end and its width."""
        found, end = [], 0.0
        for part in bar.parts:
            left, right = self.axis.share(end) * WIDTH, self.axis.share(end + part.value) * WIDTH
            found.append((part, round(left, 2), round(right - left, 2)))
            end += part.value
        return found

    def end(self, bar: Bar) -> float:
        return round(self.axis.share(sum(part.value for part in bar.parts)) * WIDTH, 2)


def draw_bars(figure: BarFigure) -> Markup:
    values = {"figure": figure, "width": WIDTH, "row": ROW}
    return rendered(templates_of("stealtime.report.page"), "bar_figure.html.jinja", values)
