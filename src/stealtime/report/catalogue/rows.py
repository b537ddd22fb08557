"""The tables of a study as its catalogue declares them, and what is said below them: the same words everywhere."""

from collections.abc import Sequence
from dataclasses import replace

from stealtime.report import notation
from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.model import FigureTable
from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.plain_table import TableOfWords
from stealtime.report.repetitions import FigureOfRepetitions, ratio_to

_EXPLANATION = "The median of the repetitions; below it the 95 % interval of their geometric mean in another session."


def tables_of(study: ShownStudy, cells: Sequence[CatalogueCell]) -> list[TableOfWords]:
    """Give the tables that have a row.

    Args:
        study: What declares them.
        cells: Its cells, in the order of the rows.
    """
    declared = [built for table in study.catalogue.tables if (built := _table(study, table, cells)).rows]
    return [*declared, *study.more_tables(cells)]


def short_tables_of(study: ShownStudy, cells: Sequence[CatalogueCell]) -> tuple[list[TableOfWords], int]:
    """Give the tables for a screen, without intervals, and how many others have a row.

    Of a study that declares none these are the tables of its figures themselves.
    """
    tables = study.catalogue.tables
    declared = [replace(table, figures=table.short) for table in tables if table.short]
    short = [
        replace(built, rows=[row for row in built.rows if row[0]])
        for table in declared or [one for one in tables if one.is_base is None]
        if (built := _table(study, table, cells)).rows
    ]
    return short, len(tables_of(study, cells)) - len(short)


def remarks_of(study: ShownStudy, cells: Sequence[CatalogueCell]) -> list[str]:
    """Say how to read the figures, and what is not judged and why."""
    if not any(cell.figures for cell in cells):
        return []
    reasons = {one.because: None for cell in cells for one in cell.figures if one.because is not None}
    return [
        _EXPLANATION,
        *study.notes(cells),
        *(f"Intervals and ratios are not judged where {reason}." for reason in reasons),
    ]


def _table(study: ShownStudy, table: FigureTable, cells: Sequence[CatalogueCell]) -> TableOfWords:
    shown = [cell for cell in cells if all(name in cell.declared.figures for name in table.figures)]
    if table.of is not None:
        shown = [cell for cell in shown if table.of(cell)]
    if table.only_measured:
        shown = [cell for cell in shown if any(_value(cell, name) is not None for name in table.figures)]
    head, names = study.names(shown)
    heads = (head, *(shown[0].declared.label(name) for name in table.figures)) if shown else (head,)
    rows = [
        row
        for cell, name in zip(shown, names, strict=True)
        for row in (_rows(cell, name, table) if table.is_base is None else _ratios(cell, name, table, shown))
    ]
    return TableOfWords(table.title, heads, rows)


def _value(cell: CatalogueCell, name: str) -> float | None:
    return cell.count(name) if cell.declared.figures[name].combine == "sum" else cell.figure(name).p50


def _rows(cell: CatalogueCell, name: str, table: FigureTable) -> list[tuple[str, ...]]:
    """Give medians and sums; below them a row of intervals, if one is judged."""
    in_words = cell.declared.in_words
    values = (in_words(figure, _value(cell, figure)) for figure in table.figures)
    intervals = [_interval(cell, figure) for figure in table.figures]
    return [(f"{name} ({cell.repetitions}x)", *values), *([("", *intervals)] if any(intervals) else [])]


def _interval(cell: CatalogueCell, name: str) -> str:
    one = cell.figure(name)
    return "" if one.low is None else one.interval_words(cell.declared.in_words)


def _ratios(
    cell: CatalogueCell, name: str, table: FigureTable, cells: Sequence[CatalogueCell]
) -> list[tuple[str, ...]]:
    """Give how many times as large the figures are as those of the base; nothing of that itself."""
    alike = [one for one in cells if (one.platform, one.probe) == (cell.platform, cell.probe)]
    base = next((one for one in alike if table.is_base is not None and table.is_base(one)), None)
    if base is None or base is cell:
        return []
    return [(name, *(_ratio(base.figure(figure), cell.figure(figure)) for figure in table.figures))]


def _ratio(base: FigureOfRepetitions, other: FigureOfRepetitions) -> str:
    ratio, _ = ratio_to(base, other, same_session=True)
    if ratio is None:
        return notation.ABSENT
    return f"{notation.ratio(ratio.value)} ({notation.ratio(ratio.low)} to {notation.ratio(ratio.high)})"
