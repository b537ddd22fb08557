"""The tables of the study, printed and on the page from the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.report.terminal.circumstances import limits
from stealtime.studies.telephony.calls.shown import recommendation_lines
from stealtime.studies.telephony.figures import TelephonyFigures, interval_words
from stealtime.studies.telephony.quantities import KINDS, Kind, in_words
from stealtime.studies.telephony.wording import cell_words, explanations, recommendations


@dataclass(frozen=True)
class TableOfFigures:
    """A table as rows of words; the first column names the cell."""

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


def printed(cells: Sequence[TelephonyFigures]) -> RenderableType:
    """Give what is printed of a run's cells."""
    parts: list[RenderableType] = []
    for one in tables_of(cells):
        table = new_table(one.title)
        table.add_column(one.heads[0])
        for head in one.heads[1:]:
            table.add_column(head, justify="right")
        for row in one.rows:
            table.add_row(*row)
        parts += [table, Text()]
    recommended = recommendation_lines(recommendations(cells))
    return Group(
        *parts,
        *(Text(line) for line in recommended),
        *([Text()] if recommended else []),
        *(Text(line) for line in explanations(cells)),
        *limits(cells),
    )


def tables_of(cells: Sequence[TelephonyFigures]) -> list[TableOfFigures]:
    """Give the tables of each probe that has cells."""
    found = [(kind, [cell for cell in cells if cell.probe == probe]) for probe, kind in KINDS.items()]
    return [
        _table(kind, title, figures, counts, own)
        for kind, own in found
        if own
        for title, figures, counts in kind.tables
    ]


def _table(
    kind: Kind, title: str, figures: tuple[str, ...], counts: tuple[str, ...], cells: Sequence[TelephonyFigures]
) -> TableOfFigures:
    heads = ("", *(kind.quantities[name].label for name in figures), *(name.replace("_", " ") for name in counts))
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        found = [cell.figure(name) for name in figures]
        counted = (notation.count(cell.counts.get(name)) for name in counts)
        rows.append(
            (f"{cell_words(cell)} ({cell.repetitions}x)", *(in_words(one.name, one.p50) for one in found), *counted)
        )
        if any(one.low is not None for one in found):
            intervals = (interval_words(one) if one.low is not None else "" for one in found)
            rows.append(("", *intervals, *("" for _ in counts)))
    return TableOfFigures(title, heads, rows)
