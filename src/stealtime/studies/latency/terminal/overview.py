"""What ``run`` and ``show`` print of latency unless all is asked for: one table that fits a screen of 80 columns.

Of each platform the overhead at the 99.9th percentile, its multiple of the native one with its interval, and the
longest. The rest, which few need at once, is printed by ``show --all`` (:mod:`.summary`).
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report import summary as report_summary
from stealtime.report.cells.model import plain_cells
from stealtime.report.circumstances.notes import scenario_lines
from stealtime.report.plain_table import number, of_cells, unit_for
from stealtime.report.terminal.circumstances import short_limits
from stealtime.studies.latency.analysis.model import CellSummary, own_part
from stealtime.studies.latency.analysis.tail import why_no_interval
from stealtime.studies.latency.rows import Column, Row, columns_of
from stealtime.studies.latency.terminal.answer import (
    HELD_BACK_MARK,
    MAY_BE_PAUSE_MARK,
    NOT_ALONE_MARK,
    UNSTEADY_MARK,
    headed_table,
    marks,
    pause_mark,
    platforms_of,
    short_span,
)

_WITH_INTERVALS = 3
_WITH_RATIOS = 4
"""Platforms that leave room for their ratios, and for the intervals of these, on a screen."""


def overview(whole: report_summary.RunSummary) -> RenderableType:
    summary = own_part(whole)
    columns = columns_of(plain_cells(summary.cells))
    parts: list[RenderableType] = []
    scenarios = list(dict.fromkeys(column.first.scenario for column in columns))
    for scenario in scenarios:
        own = [column for column in columns if column.first.scenario == scenario]
        suffix = f", scenario {scenario}" if len(scenarios) > 1 else ""
        parts += [Text(f"One in a thousand{suffix}: overhead over the floor at p99.9, and the longest", style="bold")]
        parts.append(_table(own))
    parts += [Text(line, style="dim") for line in _legend([row.cell for one in columns for row in one.rows.values()])]
    parts += [Text(line, style="dim") for line in scenario_lines(whole)]
    return Group(*parts, *short_limits(summary.cells))


def _table(columns: Sequence[Column]) -> Table:
    found = [[row.cell for row in column.rows.values()] for column in columns]
    units = [unit_for([cell.tail_overhead_ns or cell.worst_overhead_ns for cell in cells]) for cells in found]
    table = headed_table(columns, [unit for unit, _ in units])
    platforms = platforms_of(columns)
    for platform in platforms:
        rows = [column.rows.get(platform) for column in columns]
        table.add_row(
            platform,
            *(
                f"{number(None if row is None else row.tail_ns, size)}{_unsteady(row)}{marks(row)}"
                for row, (_, size) in zip(rows, units, strict=True)
            ),
        )
        ratios = [None if row is None else row.tail_ratio for row in rows]
        if any(ratios) and len(platforms) <= _WITH_RATIOS:
            table.add_row(
                "  to native", *(notation.ratio(one.value if one else None) for one in ratios), style="italic"
            )
            if len(platforms) <= _WITH_INTERVALS:
                table.add_row("  95 % interval", *map(short_span, ratios), style="dim")
        table.add_row(
            "  the longest",
            *(
                f"{number(None if row is None else row.cell.worst_overhead_ns, size)}{pause_mark(row)}"
                for row, (_, size) in zip(rows, units, strict=True)
            ),
            style="dim",
        )
    return table


def _unsteady(row: Row | None) -> str:
    return UNSTEADY_MARK if row is not None and why_no_interval(row.cell) is not None else ""


def _legend(cells: Sequence[CellSummary]) -> list[str]:
    """Say what each mark in the table means, and for how many cells it holds."""
    count = len(cells)
    unsteady: dict[str, int] = {}
    for cell in cells:
        if (reason := why_no_interval(cell)) is not None:
            unsteady[reason] = unsteady.get(reason, 0) + 1
    lines = [f"{UNSTEADY_MARK} no ratio, as {reason} ({of_cells(own, count)})" for reason, own in unsteady.items()]
    if others := sum(cell.not_alone is not None for cell in cells):
        lines.append(
            f"{NOT_ALONE_MARK} not alone: others ran beside it that nobody asked for ({of_cells(others, count)})"
        )
    own = {pause_mark(Row(cell, None)) for cell in cells}
    if HELD_BACK_MARK in own:
        lines.append(f"{HELD_BACK_MARK} without what the kernel's own limit on real-time threads explains")
    if MAY_BE_PAUSE_MARK in own:
        lines.append(
            f"{MAY_BE_PAUSE_MARK} may be a pause of the kernel's own limit on real-time threads, which nobody saw"
        )
    return lines
