"""The tables of the study, printed and on the page from the same rows."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import TableOfWords, printed
from stealtime.report.repetitions import rows_of_figures
from stealtime.report.terminal.circumstances import limits
from stealtime.studies.telephony.calls.shown import recommendation_lines
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.quantities import KINDS, Kind, in_words
from stealtime.studies.telephony.wording import cell_words, explanations, recommendations


def report_of(cells: Sequence[TelephonyFigures]) -> RenderableType:
    """Give what is printed of a run's cells."""
    recommended = recommendation_lines(recommendations(cells))
    return Group(
        *printed(tables_of(cells)),
        *(Text(line) for line in recommended),
        *([Text()] if recommended else []),
        *(Text(line) for line in explanations(cells)),
        *limits(cells),
    )


def tables_of(cells: Sequence[TelephonyFigures]) -> list[TableOfWords]:
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
) -> TableOfWords:
    heads = ("", *(kind.quantities[name].label for name in figures), *(name.replace("_", " ") for name in counts))
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        found = [cell.figure(name) for name in figures]
        counted = [notation.count(cell.counts.get(name)) for name in counts]
        rows += rows_of_figures(f"{cell_words(cell)} ({cell.repetitions}x)", found, counted, in_words)
    return TableOfWords(title, heads, rows)
