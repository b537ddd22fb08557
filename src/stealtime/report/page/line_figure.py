"""Lines with bands as SVG: drawn without a script, so that they need no library, print as they are and cannot fail.

Places are in percent of the drawing, room for words in letters' heights (:mod:`plane`). Pure. Colour, dash and mark of
a line are those of the palette; the page's style sheet takes the light or the dark one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.plane import HEIGHT, Tick, percent, room_for, room_left_for, ticks_of
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import Look

_LEADER = 1.4
"""From the end of a line to its label, in letters' heights."""
_LABEL = 6.0
"""The height of a label, in percent of the lowest drawing."""
_NARROW_LABEL = 8
"""Letters of a name that stands at the end of its line also where the figure is narrow."""
_LONGEST_LABEL = 26
"""Letters of a name that stands at the end of its line; longer ones are numbers there, and the legend has the names."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DASHES = {
    "solid": "",
    "dash": "8 5",
    "dot": "2 4",
    "dashdot": "8 4 2 4",
    "longdash": "14 5",
    "longdashdot": "14 4 2 4",
}
MARKS = {
    "circle": "M -4 0 a 4 4 0 1 0 8 0 a 4 4 0 1 0 -8 0 z",
    "square": "M -4 -4 h 8 v 8 h -8 z",
    "triangle-up": "M 0 -5 l 5 9 h -10 z",
    "triangle-down": "M 0 5 l 5 -9 h -10 z",
    "cross": "M -5 -1.5 h 3.5 v -3.5 h 3 v 3.5 h 3.5 v 3 h -3.5 v 3.5 h -3 v -3.5 h -3.5 z",
    "x": "M -5 -3 l 2 -2 l 3 3 l 3 -3 l 2 2 l -3 3 l 3 3 l -2 2 l -3 -3 l -3 3 l -2 -2 l 3 -3 z",
    "star": "M 0 -6 l 1.5 4.2 h 4.4 l -3.6 2.7 l 1.4 4.3 l -3.7 -2.6 l -3.7 2.6 l 1.4 -4.3 l -3.6 -2.7 h 4.4 z",
    "pentagon": "M 0 -5 l 4.8 3.5 l -1.8 5.5 h -6 l -1.8 -5.5 z",
    "hexagon": "M -2.5 -4.5 h 5 l 2.5 4.5 l -2.5 4.5 h -5 l -2.5 -4.5 z",
    "hourglass": "M -4 -5 h 8 l -8 10 h 8 z",
}


@dataclass(frozen=True)
class Axis:
    """From values to places between two ends."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    """Values that are marked, and their words."""

    def share(self, value: float) -> float:
        """Give how far a value is from the lower end to the upper one."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Point:
    """A value that was found."""

    x: float
    y: float
    words: str
    """Shown where the pointer rests on it."""
    low: float | None = None
    """The ends of its interval, if it has one."""
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One series; it is interrupted where a point is missing."""

    name: str
    look: Look
    points: tuple[Point | None, ...]

    @property
    def dashes(self) -> str:
        return _DASHES.get(self.look.dash, self.look.dash.replace("px", "").replace(",", " "))

    @property
    def mark(self) -> str:
        return MARKS[self.look.symbol]

    @property
    def pieces(self) -> list[list[Point]]:
        found: list[list[Point]] = [[]]
        for point in self.points:
            if point is None:
                found.append([])
            else:
                found[-1].append(point)
        return [piece for piece in found if piece]


@dataclass(frozen=True)
class Label:
    """The name of a line at its end."""

    words: str
    number: int
    """What stands there instead where there is no room."""
    line: Line
    x: float
    y: float
    """Where the line ends."""
    at: float
    """The height at which the words stand, apart from those of the other lines."""


@dataclass(frozen=True)
class LineFigure:
    """Several lines on common axes."""

    label: str
    """What it shows, for those who cannot see it."""
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    levels: tuple[tuple[float, str], ...] = field(default=())
    """Horizontal lines that mean something, and their words."""

    @property
    def is_numbered(self) -> bool:
        """Whether its lines are numbers at their ends, as a name is too long to stand there."""
        return any(len(line.name) > _LONGEST_LABEL for line in self.lines)

    @property
    def is_numbered_when_narrow(self) -> bool:
        """Whether they are numbers where the figure is narrow."""
        return any(len(line.name) > _NARROW_LABEL for line in self.lines)

    def labels(self) -> list[Label]:
        """Name each line where it ends; names that would meet stand below each other."""
        drawn = [(number, line) for number, line in enumerate(self.lines, 1) if line.pieces]
        ends = [
            (str(number) if self.is_numbered else line.name, number, line, *self.place(line.pieces[-1][-1]))
            for number, line in drawn
        ]
        heights = spread([end[-1] for end in ends], _LABEL, 0.0, HEIGHT)
        return [Label(*end, at=round(at, 2)) for end, at in zip(ends, heights, strict=True)]

    @property
    def left(self) -> float:
        """The width that the words of the vertical axis take."""
        return room_left_for([words for _, words in self.y.ticks])

    @property
    def right(self) -> float:
        """The width that the labels take right of the drawing."""
        return self._right([label.words for label in self.labels()])

    @property
    def right_narrow(self) -> float:
        """The same where the figure is narrow."""
        if not self.is_numbered_when_narrow:
            return self.right
        return self._right([str(label.number) for label in self.labels()])

    def _right(self, words: Sequence[str]) -> float:
        last = [self.x.ticks[-1][1]] if self.x.ticks else []
        return round(max(_LEADER + 0.3 + room_for(words), room_for(last) / 2 + 0.5), 1)

    def marks(self) -> list[Tick]:
        """Give the marks of the horizontal axis."""
        places = [(self.across(value), words) for value, words in self.x.ticks]
        return ticks_of(places, self.left + self.right, self.left + self.right_narrow)

    def heights(self) -> list[tuple[float, str]]:
        """Give the marks of the vertical axis, from the top."""
        return [(self.down(value), words) for value, words in self.y.ticks]

    def place(self, point: Point) -> tuple[float, float]:
        return self.across(point.x), self.down(point.y)

    def across(self, x: float) -> float:
        """Give the distance from the left."""
        return percent(self.x.share(x))

    def down(self, y: float) -> float:
        """Give the distance from the top."""
        return percent(1.0 - self.y.share(y))

    def polyline(self, piece: Sequence[Point]) -> str:
        """Give the places of points as SVG writes them."""
        return " ".join(f"{x:g},{y:g}" for x, y in map(self.place, piece))

    def band(self, piece: Sequence[Point]) -> str:
        """Give the outline of the intervals of points; empty where they have none."""
        known = [
            (point.x, point.low, point.high) for point in piece if point.low is not None and point.high is not None
        ]
        upper = [(x, high) for x, _, high in known]
        lower = [(x, low) for x, low, _ in reversed(known)]
        return " ".join(f"{self.across(x):g},{self.down(y):g}" for x, y in upper + lower)


def draw(figure: LineFigure) -> Markup:
    return rendered(templates_of("stealtime.report.page"), "line_figure.html.jinja", {"figure": figure})


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Give as many values, in the same order, each at least a gap from the next, all between two ends if they fit."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    placed, least, most = list(values), low, high
    for index in order:
        placed[index] = max(placed[index], least)
        least = placed[index] + gap
    for index in reversed(order):
        placed[index] = min(placed[index], most)
        most = placed[index] - gap
    return placed


def duration_axis(title: str, values_ns: Sequence[float]) -> Axis:
    """Give an axis of durations that are decades apart: from the decade below all of them to that above.

    Args:
        title: Of the axis.
        values_ns: At least one; they stand on the axis by their :func:`decades`.
    """
    low = math.floor(decades(min(values_ns)))
    high = max(low + 1, math.ceil(decades(max(values_ns) * 1.0001)))
    return Axis(
        title, low, high, tuple((power, notation.trimmed_duration(10**power)) for power in range(low, high + 1))
    )


def decades(nanoseconds: float) -> float:
    """Give the place of a duration on such an axis; what is shorter than a nanosecond stands there."""
    return math.log10(max(nanoseconds, 1.0))


def round_values(low: float, high: float, wanted: int) -> list[float]:
    """Give about as many round values as wanted, from the first at or after one end to the last before the other.

    Args:
        low: One end.
        high: The other one, larger.
        wanted: At most one more is given.
    """
    size = 10.0 ** math.floor(math.log10((high - low) / wanted))
    step = next(one * size for one in _STEPS if one * size >= (high - low) / wanted * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]
