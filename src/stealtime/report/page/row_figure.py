"""Rows on one axis: what figures share that draw bars, boxes or dots beside a name. Pure.

The rows are elements of the page, each with a small drawing: where there is no room, names and words stand above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stealtime.report.page.line_figure import Axis
from stealtime.report.page.plane import Tick, percent, room_for, ticks_of

_WIDEST_NAMES = 20.0
_WIDEST_WORDS = 16.0
"""What is longer is broken, in letters' heights."""


class Row(Protocol):
    """Of a figure: its name, and what it is in words, so that nothing has to be read off."""

    @property
    def title(self) -> str: ...
    @property
    def words(self) -> str: ...


@dataclass(frozen=True)
class RowFigure:
    """Rows on one axis; what is drawn in them is the template's."""

    label: str
    """What it shows, for those who cannot see it."""
    axis: Axis
    rows: Sequence[Row]

    @property
    def axis_title(self) -> str:
        return self.axis.title

    @property
    def names(self) -> float:
        """The width that the names take, in letters' heights."""
        return min(_WIDEST_NAMES, room_for([row.title for row in self.rows]) + 0.5)

    @property
    def words(self) -> float:
        """The same of the words."""
        return min(_WIDEST_WORDS, room_for([*(row.words for row in self.rows), self.axis_title]) + 0.5)

    @property
    def ticks(self) -> list[Tick]:
        places = [(percent(self.axis.share(value)), words) for value, words in self.axis.ticks]
        return ticks_of(places, self.names + self.words, 2 * self.edge)

    @property
    def edge(self) -> float:
        """The width that the words of a mark at an end of the axis take beyond it."""
        return edge_of(self.axis)


def edge_of(axis: Axis) -> float:
    """Give half the width of the longest words of an axis, in letters' heights."""
    return round(room_for([words for _, words in axis.ticks]) / 2 + 0.3, 1)
