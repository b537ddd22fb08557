"""The figures about calls: box plots of delay and loss against streams, and the time line of a failover. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.line_figure import Axis, decades, duration_axis, round_values
from stealtime.report.page.plane import Tick, percent, room_left_for, ticks_of
from stealtime.report.page.row_figure import RowFigure
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import Look, distinct_looks
from stealtime.studies.telephony.calls.figures import CallFigures, FailoverFigures
from stealtime.studies.telephony.calls.recommendation import Recommendation
from stealtime.studies.telephony.calls.results import Spread
from stealtime.studies.telephony.wording import VOICE_NOTE

_BOX_SHARE = 0.7
"""Of the width that is there for it."""
_WIDEST = 6.0
"""The widest box, in percent of the drawing."""


@dataclass(frozen=True)
class Box:
    """A box with its whiskers; places in percent."""

    left: float
    width: float
    places: dict[str, float]
    """Of the five numbers of the spread, by name, from the top."""
    look: Look
    words: str


@dataclass(frozen=True)
class BoxFigure:
    """Boxes side by side: a group for each number of streams, a colour for each way of protection."""

    label: str
    y: Axis
    middles: tuple[tuple[float, str], ...]
    """Of each group, with its words."""
    boxes: tuple[Box, ...]
    looks: dict[str, Look]

    @property
    def left(self) -> float:
        """The width that the words of the vertical axis take, in letters' heights."""
        return room_left_for([words for _, words in self.y.ticks])

    @property
    def groups(self) -> list[Tick]:
        return ticks_of(self.middles, self.left + 1.0)

    def heights(self) -> list[tuple[float, str]]:
        """Give the marks of the vertical axis, from the top."""
        return [(percent(1.0 - self.y.share(value)), words) for value, words in self.y.ticks]


@dataclass(frozen=True)
class Span:
    """A row of a time line: something that lasts, or happens at once; places in percent."""

    title: str
    left: float
    width: float | None
    words: str


@dataclass(frozen=True)
class Drawn:
    """What is drawn of a cell."""

    name: str
    """Of its way of protection, the same for all cells that have it."""
    figures: CallFigures


def delay_figure(cells: Sequence[Drawn]) -> BoxFigure | None:
    """Draw the delay of all packets; None where nothing was heard."""
    values = [value for cell in cells if (one := cell.figures.delay_ns) for value in (one.min, one.max)]
    if not values:
        return None
    axis = duration_axis("delay of the voice", values)
    return _figure(
        "Delay of the voice against streams",
        axis,
        cells,
        lambda one: one.delay_ns,
        decades,
        lambda value: notation.duration(value, 3),
    )


def loss_figure(cells: Sequence[Drawn]) -> BoxFigure | None:
    """Draw the loss of each stream; None where nothing was heard."""
    values = [one.max for cell in cells if (one := cell.figures.loss_percent)]
    if not values:
        return None
    high = max(1.0, *values) * 1.05
    ticks = tuple((value, f"{value:g} %") for value in round_values(0.0, high, 6))
    return _figure(
        "Loss of voice against streams",
        Axis("packets lost, of each stream", 0.0, high, ticks),
        cells,
        lambda one: one.loss_percent,
        lambda value: value,
        lambda value: f"{value:.3g} %",
    )


def time_line(name: str, failover: FailoverFigures) -> RowFigure:
    """Draw what happened in a failover, from the fault on."""
    gap = (
        [("no voice", failover.gap_began_ns, failover.gap_ended_ns)]
        if failover.gap_began_ns is not None and failover.gap_ended_ns is not None
        else []
    )
    rows = sorted([*((one.what, one.at_ns, None) for one in failover.moments), *gap], key=lambda row: row[1])
    moments = [at for _, begin, end in rows for at in (begin, end) if at is not None]
    first, last = min([*moments, 0]), max([*moments, 1])
    room = 0.04 * (last - first)
    low, high = first - room, last + room
    ticks = tuple((value, notation.signed_duration(value)) for value in round_values(low, high, 6))
    axis = Axis("from the fault", low, high, ticks)

    def across(at_ns: float) -> float:
        return percent(axis.share(at_ns))

    spans = [
        Span(
            title,
            across(begin),
            None if end is None else round(across(end) - across(begin), 2),
            notation.signed_duration(begin)
            if end is None
            else f"{notation.duration(end - begin, 3)}, from {notation.signed_duration(begin)} on",
        )
        for title, begin, end in rows
    ]
    return RowFigure(f"Time line of a failover, {name}", axis, spans)


def draw_boxes(figure: BoxFigure) -> Markup:
    return _rendered("box_figure", {"figure": figure})


def draw_time_line(line: RowFigure) -> Markup:
    return _rendered("time_line", {"line": line})


def part_of(cells: Sequence[Drawn], found: Sequence[Recommendation]) -> Markup:
    """Draw the part of the page that is about calls; nothing where there are none."""
    if not cells:
        return Markup()
    quiet = [cell for cell in cells if cell.figures.failover is None]
    figures = (
        ("Delay of the voice", delay_figure(quiet), "of all packets; the scale is logarithmic"),
        ("Loss of voice", loss_figure(quiet), "of each stream"),
    )
    values = {
        "boxes": [(title, figure, what) for title, figure, what in figures if figure is not None],
        "failovers": [time_line(cell.name, cell.figures.failover) for cell in cells if cell.figures.failover],
        "recommended": found,
        "note": VOICE_NOTE,
        "draw_boxes": draw_boxes,
        "draw_time_line": draw_time_line,
    }
    return _rendered("calls", values)


def _rendered(name: str, values: Mapping[str, Any]) -> Markup:
    return rendered(templates_of("stealtime.studies.telephony.page"), f"{name}.html.jinja", values)


def _figure(
    label: str,
    axis: Axis,
    cells: Sequence[Drawn],
    spread_of: Callable[[CallFigures], Spread | None],
    scaled: Callable[[float], float],
    in_words: Callable[[float], str],
) -> BoxFigure:
    streams = sorted({cell.figures.streams for cell in cells})
    names = list(dict.fromkeys(cell.name for cell in cells))
    looks = dict(zip(names, distinct_looks(len(names)), strict=True))
    group = 100.0 / len(streams)
    room = min(_WIDEST / _BOX_SHARE, group / len(names))
    middles = {number: (place + 0.5) * group for place, number in enumerate(streams)}
    boxes = []
    for cell in cells:
        if (spread := spread_of(cell.figures)) is None:
            continue
        left = middles[cell.figures.streams] + (names.index(cell.name) - len(names) / 2) * room
        values = {name: getattr(spread, name) for name in ("min", "q1", "median", "q3", "max")}
        words = ", ".join(f"{name} {in_words(value)}" for name, value in values.items())
        boxes.append(
            Box(
                left=round(left + (1 - _BOX_SHARE) / 2 * room, 2),
                width=round(_BOX_SHARE * room, 2),
                places={name: percent(1.0 - axis.share(scaled(value))) for name, value in values.items()},
                look=looks[cell.name],
                words=f"{cell.name}, {cell.figures.streams} streams: {words}",
            )
        )
    groups = tuple((middle, f"{number}") for number, middle in middles.items())
    return BoxFigure(label, axis, groups, tuple(boxes), looks)
