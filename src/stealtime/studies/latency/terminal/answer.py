"""The first tables that ``run`` and ``show`` print: one in a thousand, then the longest, which is a single event.

The first question of a real-time engineer, *how long is it never longer than*, has no answer that a minute of measuring
gives: a maximum grows with the measuring time. So the overhead at the 99.9th percentile leads, with its interval over
the repetitions and its ratio to native. The longest stands below, with what the kernel's own limit explains told apart.
"""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.lab.platforms.traits import NATIVE
from stealtime.report import notation
from stealtime.report.interval import Interval
from stealtime.report.plain_table import INVALID_MARK, new_table, number, unit_for
from stealtime.studies.latency.analysis.tail import tail_ratio, why_no_interval
from stealtime.studies.latency.rows import Column, Row
from stealtime.studies.latency.wording.held_back import held_back_sentences
from stealtime.studies.latency.wording.no_interval import no_interval_sentences

HELD_BACK_MARK = "\N{DAGGER}"
MAY_BE_PAUSE_MARK = "\N{SECTION SIGN}"
UNSTEADY_MARK = "~"
NOT_ALONE_MARK = "\N{DOUBLE DAGGER}"
"""Behind figures of a cell beside which others ran that nobody asked for, and ratios to one."""
_PAIRS = (("qemu-kvm-emulated", "qemu-kvm-paravirt"), ("qemu-tcg-emulated", "qemu-tcg-paravirt"))


def answer_tables(columns: Sequence[Column], suffix: str) -> list[RenderableType]:
    """Give the two tables of one scenario and what explains them.

    Args:
        columns: Of the scenario.
        suffix: Names the scenario, where there are several.
    """
    cells = [row.cell for column in columns for row in column.rows.values()]
    parts: list[RenderableType] = [
        Text(f"One in a thousand{suffix}: overhead over the floor at the 99.9th percentile", style="bold"),
        _steady_table(columns),
    ]
    parts += [Text(f"{UNSTEADY_MARK} {sentence}", style="dim") for sentence in no_interval_sentences(cells)]
    if any(cell.not_alone is not None for cell in cells):
        parts.append(Text(f"{NOT_ALONE_MARK} not alone: others ran beside it that nobody asked for", style="yellow"))
    parts += [
        Text(f"\nThe longest{suffix}: single events, which show what can happen but not how often", style="bold"),
        _longest_table(columns),
    ]
    marks_of_pauses = f"{HELD_BACK_MARK}{MAY_BE_PAUSE_MARK}"
    parts += [Text(f"{marks_of_pauses} {sentence}", style="yellow") for sentence in held_back_sentences(cells)]
    return parts


def platforms_of(columns: Sequence[Column]) -> list[str]:
    names = list(dict.fromkeys(platform for column in columns for platform in column.rows))
    return sorted(names, key=lambda name: name != NATIVE)


def _steady_table(columns: Sequence[Column]) -> Table:
    """Give the overhead at the 99.9th percentile; intervals and ratios stand in lines of their own: 80 columns do."""
    units = [unit_for([row.cell.tail_overhead_ns for row in column.rows.values()]) for column in columns]
    table = headed_table(columns, [unit for unit, _ in units])
    platforms = platforms_of(columns)
    for platform in platforms:
        rows = [column.rows.get(platform) for column in columns]
        figures = []
        for row, (_, size) in zip(rows, units, strict=True):
            unsteady = UNSTEADY_MARK if row is not None and why_no_interval(row.cell) is not None else ""
            figures.append(f"{number(None if row is None else row.tail_ns, size)}{unsteady}{marks(row)}")
        table.add_row(platform, *figures)
        tails = [None if row is None else row.tail for row in rows]
        if any(tails):
            spans = [short_span(one, size) for one, (_, size) in zip(tails, units, strict=True)]
            table.add_row("  95 % interval", *spans, style="dim")
        _add_ratios(table, "  to native", [None if row is None else row.tail_ratio for row in rows])
    for emulated, paravirt in _PAIRS:
        if emulated in platforms and paravirt in platforms:
            ratios = [_ratio(column, emulated, paravirt) for column in columns]
            _add_ratios(table, f"{emulated[5:8]} emul./paravirt", ratios)
    return table


def _longest_table(columns: Sequence[Column]) -> Table:
    """Give the longest overhead of all that no limit of the kernel explains."""
    units = [unit_for([row.cell.worst_overhead_ns for row in column.rows.values()]) for column in columns]
    table = headed_table(columns, [unit for unit, _ in units])
    for platform in platforms_of(columns):
        figures = []
        for column, (_, size) in zip(columns, units, strict=True):
            row = column.rows.get(platform)
            figures.append(f"{number(row.cell.worst_overhead_ns if row else None, size)}{pause_mark(row)}{marks(row)}")
        table.add_row(platform, *figures)
    return table


def pause_mark(row: Row | None) -> str:
    """Mark a longest sample that is told without pauses of the kernel's limit, or may hold one that nobody saw."""
    held_back = None if row is None else row.cell.held_back
    if held_back is None:
        return ""
    return MAY_BE_PAUSE_MARK if held_back.is_in_rest else HELD_BACK_MARK if held_back.count else ""


def headed_table(columns: Sequence[Column], units: Sequence[str]) -> Table:
    table = new_table()
    table.add_column("platform", no_wrap=True)
    for column, unit in zip(columns, units, strict=True):
        probe, _, parameters = column.title.partition(" ")
        table.add_column(Text(f"{probe}\n{parameters}\n{unit}", justify="right"), justify="right", no_wrap=True)
    return table


def _add_ratios(table: Table, name: str, ratios: Sequence[Interval | None]) -> None:
    if any(ratios):
        table.add_row(name, *(notation.ratio(one.value if one else None) for one in ratios), style="italic")
        table.add_row("  95 % interval", *map(short_span, ratios), style="dim")


def _ratio(column: Column, platform: str, reference: str) -> Interval | None:
    own, base = column.rows.get(platform), column.rows.get(reference)
    return tail_ratio(own.cell, base.cell) if own is not None and base is not None else None


def short_span(interval: Interval | None, unit: float = 1.0) -> str:
    """Write an interval as short as a column has room for."""
    return notation.ABSENT if interval is None else f"{_short(interval.low / unit)}-{_short(interval.high / unit)}"


def _short(value: float) -> str:
    """Write the end of an interval with two digits: more would say more than it knows."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def marks(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{'' if row.cell.not_alone is None else NOT_ALONE_MARK}{'' if row.cell.valid else INVALID_MARK}"
