"""Prints a table of words on a terminal: what all rows share is said once, and what is too wide goes below itself.

A table of ten columns has no room on 80: names would stand in five lines of a word each, and numbers would be broken.
So the columns that do not fit stand in a further table with the same rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.report.plain_table import TableOfWords, new_table

_NAME_WIDTH = 26
"""Longer names are broken at spaces."""
_GAP = 2
"""Between two columns: padding and the line that is not drawn."""
_REPETITIONS = re.compile(r" \((\d+x)\)$")
"""Behind the name of a cell: another thing that all may share."""


@dataclass(frozen=True)
class PrintedTable:
    """A table as a terminal shows it, however wide that is."""

    table: TableOfWords

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        table = shared_once(self.table)
        # As wide as the terminal, not as the table.
        yield Text(table.title, style="bold")
        for number, part in enumerate(_parts(table, options.max_width)):
            if number:
                yield Text()
            yield part


def printed(table: TableOfWords) -> PrintedTable:
    return PrintedTable(table)


def printed_each(tables: Sequence[TableOfWords]) -> list[RenderableType]:
    """Give several of them, with a line below each."""
    return [part for one in tables for part in (printed(one), Text())]


def shared_once(table: TableOfWords) -> TableOfWords:
    """Put what the names of all rows share into the title: ``(all: uml, UDP)``.

    A row whose first name is empty goes on with the row above it. A column of names that is the same everywhere goes.
    """
    first = [number for number, row in enumerate(table.rows) if row[0]]
    if not first:
        return table
    rows_before = table.rows
    rows = [list(row) for row in table.rows]
    shared: list[str] = []
    of_columns: list[str] = []
    empty: list[int] = []
    for column in range(table.named):
        cells = [_REPETITIONS.sub(r", \1", rows[number][column]).split(", ") for number in first]
        common = [part for part in cells[0] if part and all(part in cell for cell in cells)]
        if not common or any(row[column] for number, row in enumerate(rows) if number not in first):
            continue
        left = [[part for part in cell if part not in common] for cell in cells]
        if not any(left):
            empty.append(column)
            of_columns.append(f"{table.heads[column]}: {', '.join(common)}")
        elif all(left):
            shared += common
        else:
            continue
        for number, parts in zip(first, left, strict=True):
            rows[number][column] = ", ".join(parts)
    if not (shared or empty):
        return table
    if len(first) == 1:
        # A single row needs no name in front of it.
        told = ", ".join(_REPETITIONS.sub(r", \1", name) for name in rows_before[first[0]][: table.named] if name)
    elif len(empty) == table.named:
        return table
    else:
        told = "; ".join([*([f"all: {', '.join(shared)}"] if shared else []), *of_columns])
    kept = [column for column in range(len(table.heads)) if column not in empty]
    return replace(
        table,
        title=f"{table.title} ({told})",
        heads=tuple(table.heads[column] for column in kept),
        rows=[tuple(row[column] for column in kept) for row in rows],
        named=table.named - len(empty),
        whole=tuple(kept.index(column) for column in table.whole if column in kept),
    )


def _parts(table: TableOfWords, width: int) -> list[Table]:
    """Give the table, or several with the same names, each as wide as there is room."""
    count = len(table.heads) - table.wide
    widths = [_least_width(table, column) for column in range(count)]
    names = list(range(table.named))
    _narrow(table, names, widths, width)
    room = width - sum(widths[column] + _GAP for column in names)
    groups: list[list[int]] = [[]]
    for column in range(table.named, count):
        used = sum(widths[one] + _GAP for one in groups[-1])
        if groups[-1] and used + widths[column] > room:
            groups.append([])
        groups[-1].append(column)
    return [_drawn(table, [*names, *group], widths, width) for group in groups]


def _narrow(table: TableOfWords, names: Sequence[int], widths: list[int], width: int) -> None:
    """Break names earlier where there are so many columns of them that they have no room beside each other."""
    words = [max((len(word) for row in table.rows for word in row[column].split()), default=1) for column in names]
    while sum(widths[column] + _GAP for column in names) > width:
        wide = [column for column in names if widths[column] > words[column] and column not in table.whole]
        if not wide:
            return
        widths[max(wide, key=lambda column: widths[column])] -= 1


def _drawn(table: TableOfWords, columns: Sequence[int], least: Sequence[int], width: int) -> Table:
    drawn = new_table()
    # What is left of the line goes to names first, then to heads and intervals that would stand in several lines.
    left = width - sum(least[column] + _GAP for column in columns)
    for column in columns:
        cells = [row[column] for row in table.rows]
        more = max(0, min(left, max(map(len, [*table.heads[column].splitlines(), *cells])) - least[column]))
        left -= more
        drawn.add_column(
            table.heads[column],
            justify="left" if column < table.named else "right",
            no_wrap=column in table.whole,
            width=least[column] + more,
        )
    for row in table.rows:
        drawn.add_row(*(_fitted(row[column], one.width) for column, one in zip(columns, drawn.columns, strict=True)))
    return drawn


def _fitted(cell: str, width: int | None) -> str:
    """Have an interval stand below its figure, whole, where both do not fit beside each other."""
    return _in_two(cell) if width is not None and len(cell) > width else cell


def _in_two(cell: str) -> str:
    return cell.replace(" (", "\n(", 1)


def _least_width(table: TableOfWords, column: int) -> int:
    """Give the width in which no word of the head is broken, and no number: an interval may stand below its figure."""
    words = table.heads[column].splitlines() if column in table.whole else table.heads[column].split()
    head = max(map(len, words), default=1)
    cells = [row[column] for row in table.rows]
    if column >= table.named or column in table.whole:
        pieces = [line for cell in cells for line in (_in_two(cell) if column >= table.named else cell).splitlines()]
        return max([head, *map(len, pieces)])
    longest = max((len(cell) for cell in cells), default=0)
    word = max((len(word) for cell in cells for word in cell.split()), default=0)
    return max(head, word, min(longest, _NAME_WIDTH))
