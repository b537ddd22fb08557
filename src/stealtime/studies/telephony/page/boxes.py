"""Box plots of response times and curves of CPU against load, as shapes for the templates. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stealtime.report import notation
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.wording import cell_words, server_words, transport_words

WIDTH = 640.0
"""Of the drawing area, in the units of the SVG."""
HEIGHT = 260.0
ROW = 30.0
COLOURS = ("#0072b2", "#c24e00", "#007a5a", "#6a3fb5", "#8c3b2a", "#a8487f", "#4d6b1a", "#56b4e9")


@dataclass(frozen=True)
class LogAxis:
    """From durations to places, decade by decade."""

    low_ns: float
    high_ns: float

    def place(self, value_ns: float) -> float:
        """Give the distance from the left."""
        span = math.log10(self.high_ns / self.low_ns)
        return math.log10(max(value_ns, self.low_ns) / self.low_ns) / span * WIDTH

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The decades, each with its place and words."""
        first, last = round(math.log10(self.low_ns)), round(math.log10(self.high_ns))
        return [(self.place(10.0**power), notation.duration(10.0**power, 1)) for power in range(first, last + 1)]


@dataclass(frozen=True)
class Box:
    """A row: places of minimum, quartiles, 99th percentile and maximum."""

    title: str
    low: float
    q1: float
    middle: float
    q3: float
    p99: float
    high: float
    words: str


def response_axis(cells: Sequence[TelephonyFigures]) -> LogAxis:
    """Whole decades around all response times."""
    times = [one for cell in cells for one in cell.responses]
    low = min((one.min_ns for one in times), default=1_000_000)
    high = max((one.max_ns for one in times), default=1_000_000_000)
    return LogAxis(10.0 ** math.floor(math.log10(max(low, 1))), 10.0 ** math.ceil(math.log10(high + 1)))


def response_boxes(cells: Sequence[TelephonyFigures], axis: LogAxis) -> list[Box]:
    """Give a row for each cell that was answered: of several repetitions, the median of each of the figures."""
    rows = []
    for cell in cells:
        if not cell.responses:
            continue
        names = ("min_ns", "q1_ns", "median_ns", "q3_ns", "p99_ns", "max_ns")
        values = [median(getattr(one, name) for one in cell.responses) for name in names]
        said = ("shortest", "a quarter within", "half within", "three quarters within", "99 % within", "longest")
        words = ", ".join(f"{word} {notation.duration(value, 3)}" for word, value in zip(said, values, strict=True))
        low, q1, middle, q3, p99, high = (axis.place(value) for value in values)
        rows.append(Box(cell_words(cell), low, q1, middle, q3, p99, high, words))
    return rows


@dataclass(frozen=True)
class Point:
    """A cell of a curve."""

    x: float
    y: float
    words: str


@dataclass(frozen=True)
class Curve:
    """One kind of server over one transport, at several loads."""

    name: str
    points: list[Point]
    colour: str
    is_dashed: bool
    """Of the host side, as its server's curve has the same colour."""

    @property
    def path(self) -> str:
        """The points of a polyline."""
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


@dataclass(frozen=True)
class CpuChart:
    """CPU against load, as in the source's figures 2 and 3."""

    curves: list[Curve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def cpu_chart(cells: Sequence[TelephonyFigures]) -> CpuChart | None:
    """Draw the CPU of server and host side against registrations a second; None where nothing is to be drawn."""
    groups: dict[str, list[TelephonyFigures]] = {}
    for cell in cells:
        if cell.figure("server_cpu_percent").p50 is not None:
            groups.setdefault(f"{server_words(cell)}, {transport_words(cell)}", []).append(cell)
    if not groups:
        return None
    figures = ("server_cpu_percent", "host_cpu_percent")
    own = [cell for group in groups.values() for cell in group]
    x_high = _round_up(max(cell.figure("offered_per_s").p50 or 0.0 for cell in own))
    y_high = _round_up(max(cell.figure(name).p50 or 0.0 for cell in own for name in figures))
    curves = []
    for (name, group), colour in zip(groups.items(), _colours(len(groups)), strict=True):
        for figure in figures:
            points = [
                Point(x / x_high * WIDTH, (1 - y / y_high) * HEIGHT, f"{cell_words(cell)}: {y:.3g} % at {x:.0f}/s")
                for cell in group
                if (x := cell.figure("offered_per_s").p50) is not None and (y := cell.figure(figure).p50) is not None
            ]
            side = "host side" if figure == "host_cpu_percent" else "server"
            if points:
                ordered = sorted(points, key=lambda point: point.x)
                curves.append(Curve(f"{name}: {side}", ordered, colour, is_dashed=side == "host side"))
    return CpuChart(
        curves,
        [(part * WIDTH / 4, f"{part * x_high / 4:g}") for part in range(5)],
        [((1 - part / 4) * HEIGHT, f"{part * y_high / 4:g} %") for part in range(5)],
    )


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]


def _round_up(value: float) -> float:
    """Give the next one of 1, 2, 4 and 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(step * power for step in (1.0, 2.0, 4.0, 8.0, 10.0) if step * power >= value)
