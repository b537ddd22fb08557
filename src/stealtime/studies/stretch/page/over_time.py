"""The host's counters over time as shapes: percentages on the axis at the left, wait per dispatch on that at the right.

Pure. All figures of one kind of work have the same axes, so that they can be compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stealtime.report import notation
from stealtime.report.page.line_figure import Axis, Point
from stealtime.report.page.plane import Tick, percent, room_for, ticks_of
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.analysis.recorded import Moment, Recording
from stealtime.studies.stretch.page.figures import marked, place

_BESIDE = 9.0
"""What stands left and right of a drawing, in letters' heights."""
_UNITS_NS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


@dataclass(frozen=True)
class Line:
    """One series; it is interrupted where values are absent."""

    kind: str
    """Its class in the style sheet."""
    pieces: tuple[tuple[Point, ...], ...]


@dataclass(frozen=True)
class Chart:
    """One cell."""

    title: str
    words: str
    """Which repetition it is, or why nothing is drawn."""
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Charts:
    """Those of one kind of work, with their axes."""

    charts: tuple[Chart, ...]
    seconds: list[Tick]
    """Marks of the axis; so are the two below, from the top."""
    percent: tuple[tuple[float, str], ...]
    waits: tuple[tuple[float, str], ...]
    """There are none where no virtual CPU was seen to be dispatched."""

    @property
    def right(self) -> float:
        """The width that the words at the right take, in letters' heights."""
        return round(room_for([words for _, words in self.waits]) + 1.0, 1)


LEGEND = (
    ("busy", "CPUs of the host busy (left)"),
    ("run", "virtual CPUs of the machine run (left)"),
    ("wait", "they wait for a CPU (left)"),
    ("dispatch", "wait per dispatch (right)"),
)
"""The classes of the lines, and what they mean."""


def charts(cells: Sequence[StretchCell], recordings: Sequence[Recording | None]) -> Charts:
    """Draw the recordings of cells, one each.

    Args:
        cells: Of one kind of work.
        recordings: In the order of the cells; None where there is none.
    """
    moments = [moment for one in recordings if one is not None for moment in one.moments]
    seconds = marked(0.0, max([1.0, *(moment.at_s for moment in moments)]), " s")
    longest_ns = max((one.wait_per_dispatch_ns or 0.0 for one in moments), default=0.0)
    unit, unit_ns = next(one for one in _UNITS_NS if longest_ns >= one[1] or one[1] == 1.0)
    # On a scale of its unit, so that the marks are round.
    right = marked(0.0, 1.05 * longest_ns / unit_ns, f" {unit}") if longest_ns > 0 else None
    left = marked(0.0, 105.0)
    return Charts(
        charts=tuple(
            _chart(cell, one, _Axes(seconds, left, right, unit_ns))
            for cell, one in zip(cells, recordings, strict=True)
            if one
        ),
        seconds=ticks_of([(place(seconds, value), words) for value, words in seconds.ticks], _BESIDE),
        percent=tuple((_height(value, left), f"{value} %") for value in (0, 25, 50, 75, 100)),
        waits=() if right is None else tuple((_height(value, right), words) for value, words in right.ticks),
    )


@dataclass(frozen=True)
class _Axes:
    seconds: Axis
    percent: Axis
    waits: Axis | None
    waits_unit_ns: float


def _chart(cell: StretchCell, recording: Recording, axes: _Axes) -> Chart:
    moments = recording.moments
    if not moments:
        return Chart(cell.title, "no whole second, which is the shortest interval: nothing is drawn", ())

    def line(kind: str, value: Callable[[Moment], float | None], axis: Axis, words: Callable[[float], str]) -> Line:
        pieces: list[list[Point]] = [[]]
        for moment in moments:
            found = value(moment)
            if found is None:
                pieces.append([])
            else:
                x, y = place(axes.seconds, moment.at_s), _height(found, axis)
                pieces[-1].append(Point(x, y, f"{moment.at_s:.1f} s: {words(found)}"))
        return Line(kind, tuple(tuple(piece) for piece in pieces if piece))

    def in_percent(value: float) -> str:
        return f"{value:.1f} %"

    lines = [
        line("busy", lambda moment: moment.busy_percent, axes.percent, in_percent),
        line("run", lambda moment: moment.run_percent, axes.percent, in_percent),
        line("wait", lambda moment: moment.wait_percent, axes.percent, in_percent),
    ]
    unit_ns = axes.waits_unit_ns

    def wait(moment: Moment) -> float | None:
        return None if moment.wait_per_dispatch_ns is None else moment.wait_per_dispatch_ns / unit_ns

    if axes.waits is not None:
        lines.append(line("dispatch", wait, axes.waits, lambda value: notation.duration(value * unit_ns)))
    words = f"repetition {recording.repetition}, that of median elapsed time of {recording.of}"
    return Chart(cell.title, words, tuple(one for one in lines if one.pieces))


def _height(value: float, axis: Axis) -> float:
    """Give the distance from the top, in percent; what is beyond the axis lies on its end."""
    return percent(1.0 - min(1.0, axis.share(value)))
