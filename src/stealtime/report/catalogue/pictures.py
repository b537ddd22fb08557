"""Draws the pictures that a catalogue declares: durations with their spread, and what happened when. Pure."""

from collections.abc import Sequence

from stealtime.report import notation
from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.declared_pictures import Spread, TimeLine
from stealtime.report.page.dot_figure import DotFigure, Group, Row, draw_dots, log_duration_axis, logarithm, time_axis
from stealtime.report.page.section import Pictures
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import distinct_looks
from stealtime.report.plain_table import cell_title


def pictures_of(declared: Sequence[Spread | TimeLine], cells: Sequence[CatalogueCell]) -> Pictures:
    """Draw those that cells have the figures for."""
    drawn = [(one, figure) for one in declared if (figure := figure_of(one, cells)) is not None]
    if not drawn:
        return Pictures()
    values = {"drawn": drawn, "draw_dots": draw_dots}
    return Pictures(body=rendered(templates_of("stealtime.report.catalogue"), "pictures.html.jinja", values))


def figure_of(declared: Spread | TimeLine, cells: Sequence[CatalogueCell]) -> DotFigure | None:
    """Draw one of the cells that have its figures; None where none has."""
    own = [cell for cell in cells if all(name in cell.declared.figures for name in declared.figures)]
    return _spread(declared, own) if isinstance(declared, Spread) else _time_line(declared, own)


def _spread(declared: Spread, cells: Sequence[CatalogueCell]) -> DotFigure | None:
    """Draw dots and lines, the shortest first."""
    first, _ = next(iter(declared.groups.values()))
    ordered = sorted(cells, key=lambda cell: (cell.platform, cell.figure(first).p50 or 0.0))
    rows = list(zip(ordered, _names(ordered), distinct_looks(len(ordered)), strict=True))
    ends: list[float] = []
    groups = []
    for title, (dot, line_end) in declared.groups.items():
        drawn = []
        for cell, name, look in rows:
            if (at := cell.figure(dot).p50) and (end := cell.figure(line_end).p50):
                ends += at, end
                words = f"{notation.duration(at, 3)}; {declared.line} {notation.duration(end, 3)}"
                place = logarithm(at)
                drawn.append(Row(name, words, at=place, low=place, high=logarithm(end), look=look))
        groups.append(Group(title, tuple(drawn)))
    return DotFigure(declared.title, log_duration_axis(declared.axis, ends), tuple(groups)) if ends else None


def _time_line(declared: TimeLine, cells: Sequence[CatalogueCell]) -> DotFigure | None:
    lines = [(cell, rows) for cell in cells if (rows := _middle(declared, cell))]
    if not lines:
        return None
    names = _names([cell for cell, _ in lines])
    groups = tuple(Group(name, tuple(rows)) for name, (_, rows) in zip(names, lines, strict=True))
    moments = [end for _, rows in lines for row in rows for end in (row.at, row.low, row.high) if end is not None]
    return DotFigure(declared.title, time_axis(declared.axis, moments, notation.signed_duration), groups, level=0.0)


def _middle(declared: TimeLine, cell: CatalogueCell) -> list[Row]:
    """Give the rows of one repetition: all figures of it, not of each the median, so that they belong together."""
    lengths = cell.figure(next(iter(declared.lasting.values()))[0]).of_repetitions
    if not lengths:
        return []
    number = sorted(range(len(lengths)), key=lambda index: lengths[index])[len(lengths) // 2]

    def value(name: str) -> float | None:
        found = cell.figure(name).of_repetitions
        # Where only some repetitions have it, nobody knows which of them these are.
        return found[number] if len(found) == len(lengths) else None

    rows = [Row(declared.zero, "0", 0.0)]
    for name, (figure, *less) in declared.moments.items():
        at, others = value(figure), [value(one) for one in less]
        if at is not None and None not in others:
            at -= sum(one for one in others if one is not None)
            rows.append(Row(name, notation.signed_duration(at), at))
    return [*rows, *(_lasted(name, value(length), value(end)) for name, (length, end) in declared.lasting.items())]


def _lasted(name: str, length: float | None, end: float | None) -> Row:
    if length is None:
        return Row(name, "not known")
    words = notation.duration(length, 3)
    if end is None:
        return Row(name, f"{words}; when was not stored")
    return Row(name, f"{words}, until {notation.signed_duration(end)}", low=end - length, high=end)


def _names(cells: Sequence[CatalogueCell]) -> list[str]:
    """Name cells by what differs: their parameters, and probe or platform where there are several."""
    titles = [cell_title(cell.probe, cell.parameters) for cell in cells]
    if len({cell.probe for cell in cells}) == 1:
        titles = [title.removeprefix(cell.probe).strip() for cell, title in zip(cells, titles, strict=True)]
    if len({cell.platform for cell in cells}) == 1:
        return titles
    return [f"{cell.platform} {title}" for cell, title in zip(cells, titles, strict=True)]
