"""Tables as far as a screen has room for them: what ``run`` and ``show`` print unless all is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from stealtime.report.cells.model import CellFigures
from stealtime.report.plain_table import TableOfWords
from stealtime.report.terminal.circumstances import short_limits
from stealtime.report.words_table import printed

SCREEN_LINES = 40
LEFT_FOR_THE_ANSWER = 13
"""With its hint and lines; and for the name of the run and what follows."""
_LEFT_FOR_STRANGERS = 3
_LINES = SCREEN_LINES - LEFT_FOR_THE_ANSWER - _LEFT_FOR_STRANGERS


@dataclass(frozen=True)
class ShortTables:
    """Tables as long as there is room, the first in any case; then how many are left out."""

    tables: Sequence[TableOfWords]
    lines: int
    """How many there is room for."""
    others: int = 0
    """How many more tables there are, for which there never is room."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left, left_out = self.lines, self.others
        for number, table in enumerate(self.tables):
            drawn = Group(*([Text()] if number else []), printed(table))
            needed = len(console.render_lines(drawn, options))
            if number and needed > left:
                left_out += 1
                continue
            left -= needed
            yield drawn
        if left_out:
            count = "one more table" if left_out == 1 else f"{left_out} more tables"
            yield Text(f"{count}: --all", style="dim")


def overview(tables: Sequence[TableOfWords], others: int, cells: Sequence[CellFigures]) -> RenderableType:
    """Give the tables of some cells that have room on a screen, and in short what limits these cells.

    Args:
        tables: The first is shown in any case.
        others: How many further tables there are, which are only counted.
        cells: That the tables are of.
    """
    limits = short_limits(cells)
    return Group(ShortTables(tables, _LINES - len(limits), others), *limits)
