"""Box plots of response times, as shapes for the template. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stealtime.report import notation
from stealtime.report.page.line_figure import Axis, decades, duration_axis, room_for
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.wording import cell_words

WIDTH = 640.0
"""Of the drawing area, in the units of the SVG."""
ROW = 30.0
_NAMES = ("min_ns", "q1_ns", "median_ns", "q3_ns", "p99_ns", "max_ns")
_SAID = ("shortest", "a quarter within", "half within", "three quarters within", "99 % within", "longest")


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


@dataclass(frozen=True)
class BoxFigure:
    """A row for each load."""

    ticks: list[tuple[float, str]]
    rows: list[Box]

    @property
    def left(self) -> float:
        """The width that the titles take."""
        return room_for([row.title for row in self.rows])


def response_boxes(cells: Sequence[TelephonyFigures]) -> BoxFigure | None:
    """Give a row for each cell that was answered, of repetitions the median of each figure; None without any."""
    answered = [cell for cell in cells if cell.responses]
    if not answered:
        return None
    ends = [float(end) for cell in answered for one in cell.responses for end in (one.min_ns, one.max_ns)]
    axis = duration_axis("response time", ends)
    return BoxFigure(
        [(axis.share(power) * WIDTH, words) for power, words in axis.ticks], [_row(one, axis) for one in answered]
    )


def _row(cell: TelephonyFigures, axis: Axis) -> Box:
    values = [float(median(getattr(one, name) for one in cell.responses)) for name in _NAMES]
    words = ", ".join(f"{word} {notation.duration(value, 3)}" for word, value in zip(_SAID, values, strict=True))
    low, q1, middle, q3, p99, high = (axis.share(decades(value)) * WIDTH for value in values)
    return Box(cell_words(cell), low, q1, middle, q3, p99, high, words)
