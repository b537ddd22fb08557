"""The tables that ``run`` and ``show`` print: the answer first (``answer_tables``), then every figure."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.lab.platforms.traits import NATIVE
from stealtime.report import notation
from stealtime.report import summary as report_summary
from stealtime.report.cells.model import plain_cells
from stealtime.report.plain_table import INVALID_MARK, new_table, number, unit_for
from stealtime.report.terminal.circumstances import circumstances, limits
from stealtime.studies.latency.analysis.model import CellSummary, Period, own_part
from stealtime.studies.latency.rows import Column, columns_of
from stealtime.studies.latency.terminal.answer import HELD_BACK_MARK, answer_tables, platforms_of

UNRESOLVED_MARK = "*"
_PERIODS_SHOWN = 4


def tables(whole: report_summary.RunSummary) -> RenderableType:
    summary = own_part(whole)
    cells = plain_cells(summary.cells)
    columns = columns_of(cells)
    parts: list[RenderableType] = []
    scenarios = list(dict.fromkeys(column.first.scenario for column in columns))
    for scenario in scenarios:
        own = [column for column in columns if column.first.scenario == scenario]
        suffix = f", scenario {scenario}" if len(scenarios) > 1 else ""
        parts += answer_tables(own, suffix)
        for column in own:
            parts += [Text(), _cell_table(column, suffix)]
    parts.append(Text("\nover: the longest sample less the floor; p50 ratio: to native", style="dim"))
    parts += _periods(cells)
    parts += circumstances(summary)
    if any(cell.stats is not None and cell.stats.unresolved for cell in summary.cells):
        parts.append(Text(f"\n{UNRESOLVED_MARK} less than one sample lies beyond this percentile: it is the maximum"))
    parts += limits(summary.cells)
    return Group(*parts)


def _cell_table(column: Column, suffix: str) -> Table:
    """Give every figure of one probe with its parameters, a row for each platform."""
    table = new_table(f"{column.title}{suffix}")
    table.add_column("platform", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    all_stats = [row.cell.stats for row in column.rows.values() if row.cell.stats is not None]
    units = {}
    for heading, key in _FIGURES:
        unit, size = unit_for([getattr(stats, key) for stats in all_stats])
        units[key] = size
        table.add_column(f"{heading}\n{unit}", justify="right", no_wrap=True)
    table.add_column("p50\nratio", justify="right", no_wrap=True)
    for platform in platforms_of([column]):
        cell = column.rows[platform].cell
        if cell.stats is None:
            table.add_row(platform, "failed", *([notation.ABSENT] * (len(_FIGURES) + 1)), style="red")
            continue
        row = [f"{platform}{'' if cell.valid else ' ' + INVALID_MARK}", notation.count(cell.stats.count)]
        for _, key in _FIGURES:
            mark = UNRESOLVED_MARK if key in cell.stats.unresolved else ""
            if key in _MAXIMA and cell.held_back is not None and cell.held_back.is_longest:
                mark = HELD_BACK_MARK
            row.append(f"{number(getattr(cell.stats, key), units[key])}{mark}")
        row.append("" if platform == NATIVE else notation.ratio(column.rows[platform].median_ratio))
        table.add_row(*row, style=None if cell.valid else "yellow")
    return table


_FIGURES = (
    ("floor", "floor_ns"),
    ("p50", "p50_ns"),
    ("p99", "p99_ns"),
    ("p99.9", "p999_ns"),
    ("max", "max_ns"),
    ("over", "max_overhead_ns"),
)
_MAXIMA = ("max_ns", "max_overhead_ns")


def _periods(cells: Sequence[CellSummary]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for cell in cells:
        if cell.periods:
            words = "; ".join(period_words(one) for one in cell.periods[:_PERIODS_SHOWN])
            lines.append(Text(f"  {cell.platform}: {words}"))
    return [Text("\nFound to repeat in tick", style="bold"), *lines] if lines else []


def period_words(period: Period) -> str:
    """Say what repeats, and where that was found: ``every 4.000 ms (250 Hz): 3.10 us, in 3 of 4 repetitions``."""
    rate = f" ({period.rate_hz:.4g} Hz)" if period.rate_hz >= 2 else ""
    words = f"every {notation.duration(period.period_s * 1e9)}{rate}: {notation.duration(period.cost_p50_ns, 3)}"
    count = period.searched_repetitions
    return f"{words}, in {period.found_in_repetitions} of {count} repetition{'s' * (count != 1)}"
