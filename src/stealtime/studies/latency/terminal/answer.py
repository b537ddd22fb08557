"""The first tables that ``run`` and ``show`` print: one in a thousand, then the longest, which is a single event.

The first question of a real-time engineer, *how long is it never longer than*, has no answer that a minute of measuring
gives: a maximum grows with the measuring time. So the overhead at the 99.9th percentile leads, with its interval over
the repetitions and its ratio to native. The longest stands below, with what the kernel's own limit explains told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.lab.platforms.traits import NATIVE
from stealtime.report import notation
from stealtime.report.interval import Interval
from stealtime.report.plain_table import INVALID_MARK, cell_title, new_table, number, unit_for
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import tail_overhead, tail_ratio, why_no_interval
from stealtime.studies.latency.wording.held_back import held_back_sentences
from stealtime.studies.latency.wording.no_interval import no_interval_sentences

HELD_BACK_MARK = "\N{DAGGER}"
UNSTEADY_MARK = "~"
NOT_ALONE_MARK = "\N{DOUBLE DAGGER}"
"""Behind figures of a cell beside which others ran that nobody asked for, and ratios to one."""
_PAIRS = (("qemu-kvm-emulated", "qemu-kvm-paravirt"), ("qemu-tcg-emulated", "qemu-tcg-paravirt"))


@dataclass(frozen=True)
class Column:
    """One question: a probe with its parameters, in a scenario."""

    cells: dict[str, CellSummary]
    """By platform."""

    @property
    def first(self) -> CellSummary:
        """One of its cells, for what they have in common."""
        return next(iter(self.cells.values()))

    @property
    def title(self) -> str:
        """The probe with its parameters."""
        return cell_title(self.first.probe, self.first.parameters)


def answer_tables(columns: Sequence[Column], suffix: str) -> list[RenderableType]:
    """Give the two tables of one scenario and what explains them.

    Args:
        columns: Of the scenario.
        suffix: Names the scenario, where there are several.
    """
    cells = [cell for column in columns for cell in column.cells.values()]
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
    parts += [Text(f"{HELD_BACK_MARK} {sentence}", style="yellow") for sentence in held_back_sentences(cells)]
    return parts


def platforms_of(columns: Sequence[Column]) -> list[str]:
    """Give the platforms in the order of their rows."""
    names = list(dict.fromkeys(platform for column in columns for platform in column.cells))
    return sorted(names, key=lambda name: name != NATIVE)


def _steady_table(columns: Sequence[Column]) -> Table:
    """Give the overhead at the 99.9th percentile; intervals and ratios stand in lines of their own: 80 columns do."""
    units = [unit_for([_tail_ns(cell) for cell in column.cells.values()]) for column in columns]
    table = _new_table(columns, [unit for unit, _ in units])
    platforms = platforms_of(columns)
    intervals = {
        (platform, place): tail_overhead(column.cells[platform])
        for place, column in enumerate(columns)
        for platform in column.cells
    }
    for platform in platforms:
        row = []
        for place, (column, (_, size)) in enumerate(zip(columns, units, strict=True)):
            cell, interval = column.cells.get(platform), intervals.get((platform, place))
            value_ns = interval.value if interval is not None else _tail_ns(cell)
            unsteady = UNSTEADY_MARK if cell is not None and why_no_interval(cell) is not None else ""
            row.append(f"{number(value_ns, size)}{unsteady}{_marks(cell)}")
        table.add_row(platform, *row)
        own = [intervals.get((platform, place)) for place in range(len(columns))]
        if any(own):
            spans = [_span(one, size) for one, (_, size) in zip(own, units, strict=True)]
            table.add_row("  95 % interval", *spans, style="dim")
        if platform != NATIVE and NATIVE in platforms:
            _add_ratios(table, "  to native", [_ratio(column, platform, NATIVE) for column in columns])
    for emulated, paravirt in _PAIRS:
        if emulated in platforms and paravirt in platforms:
            ratios = [_ratio(column, emulated, paravirt) for column in columns]
            _add_ratios(table, f"{emulated[5:8]} emul./paravirt", ratios)
    return table


def _longest_table(columns: Sequence[Column]) -> Table:
    """Give the longest overhead of all that no limit of the kernel explains."""
    units = [unit_for([cell.worst_overhead_ns for cell in column.cells.values()]) for column in columns]
    table = _new_table(columns, [unit for unit, _ in units])
    for platform in platforms_of(columns):
        row = []
        for column, (_, size) in zip(columns, units, strict=True):
            cell = column.cells.get(platform)
            held_back = cell.held_back if cell is not None else None
            mark = HELD_BACK_MARK if held_back is not None and (held_back.count or held_back.is_in_rest) else ""
            row.append(f"{number(cell.worst_overhead_ns if cell else None, size)}{mark}{_marks(cell)}")
        table.add_row(platform, *row)
    return table


def _new_table(columns: Sequence[Column], units: Sequence[str]) -> Table:
    table = new_table()
    table.add_column("platform", no_wrap=True)
    for column, unit in zip(columns, units, strict=True):
        probe, _, parameters = column.title.partition(" ")
        table.add_column(Text(f"{probe}\n{parameters}\n{unit}", justify="right"), justify="right", no_wrap=True)
    return table


def _add_ratios(table: Table, name: str, ratios: Sequence[Interval | None]) -> None:
    if any(ratios):
        table.add_row(name, *(notation.ratio(one.value if one else None) for one in ratios), style="italic")
        spans = [f"{_short(one.low)}-{_short(one.high)}" if one is not None else notation.ABSENT for one in ratios]
        table.add_row("  95 % interval", *spans, style="dim")


def _ratio(column: Column, platform: str, reference: str) -> Interval | None:
    own, base = column.cells.get(platform), column.cells.get(reference)
    return tail_ratio(own, base) if own is not None and base is not None else None


def _tail_ns(cell: CellSummary | None) -> float | None:
    return None if cell is None else cell.tail_overhead_ns


def _span(interval: Interval | None, unit_ns: float) -> str:
    if interval is None:
        return notation.ABSENT
    return f"{_short(interval.low / unit_ns)}-{_short(interval.high / unit_ns)}"


def _short(value: float) -> str:
    """Write the end of an interval with two digits: more would say more than it knows."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _marks(cell: CellSummary | None) -> str:
    if cell is None:
        return ""
    return f"{'' if cell.not_alone is None else NOT_ALONE_MARK}{'' if cell.valid else INVALID_MARK}"
