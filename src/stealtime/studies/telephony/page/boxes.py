"""Box plots of response times, as shapes for the template. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stealtime.report import notation
from stealtime.report.page.line_figure import Axis, decades, duration_axis
from stealtime.report.page.plane import percent
from stealtime.report.page.row_figure import RowFigure
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.wording import cell_words

_NAMES = ("min_ns", "q1_ns", "median_ns", "q3_ns", "p99_ns", "max_ns")
_SAID = ("shortest", "a quarter within", "half within", "three quarters within", "99 % within", "longest")


@dataclass(frozen=True)
class Box:
    """A row: places of minimum, quartiles, 99th percentile and maximum, in percent."""

    title: str
    words: str
    low: float
    q1: float
    middle: float
    q3: float
    p99: float
    high: float
    spoken: str
    """All of them in words."""


@dataclass(frozen=True)
class ResponseFigure(RowFigure):
    """A row for each load."""

    rows: list[Box]


def response_boxes(cells: Sequence[TelephonyFigures]) -> ResponseFigure | None:
    """Give a row for each cell that was answered, of repetitions the median of each figure; None without any."""
    answered = [cell for cell in cells if cell.responses]
    if not answered:
        return None
    ends = [float(end) for cell in answered for one in cell.responses for end in (one.min_ns, one.max_ns)]
    axis = duration_axis("response time", ends)
    return ResponseFigure("Response times of registrations", axis, [_row(one, axis) for one in answered])


def _row(cell: TelephonyFigures, axis: Axis) -> Box:
    values = [float(median(getattr(one, name) for one in cell.responses)) for name in _NAMES]
    spoken = ", ".join(f"{word} {notation.duration(value, 3)}" for word, value in zip(_SAID, values, strict=True))
    words = f"{notation.duration(values[2], 3)}; 99 % within {notation.duration(values[4], 3)}"
    low, q1, middle, q3, p99, high = (percent(axis.share(decades(value))) for value in values)
    return Box(cell_words(cell), words, low, q1, middle, q3, p99, high, spoken)
