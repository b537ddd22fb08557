"""The tables that ``run`` and ``show`` print: the worst case side by side, as in the paper, then every figure.

*How long is it never longer than* is the question of a real-time engineer, so the first table answers that: rows are
platforms, columns are probes, and each figure stands with its ratio to native. Its last rows compare emulated with
paravirtual machines, as the paper's tables 2 to 16 do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.analysis.model import CellSummary, RunSummary, Stats
from stealtime.quantities import format_duration
from stealtime.report import notation
from stealtime.report.around_tables import around_the_machines

UNRESOLVED_MARK = "*"
INVALID_MARK = "!"
_UNITS = (("s", 1e9), ("ms", 1e6), ("\N{MICRO SIGN}s", 1e3), ("ns", 1.0))
_PROBES = ("tick", "switch", "wakeup")
_PAIRS = (("qemu-kvm-emulated", "qemu-kvm-paravirt"), ("qemu-tcg-emulated", "qemu-tcg-paravirt"))
_DIGITS = 4
_PERIODS_SHOWN = 4


@dataclass(frozen=True)
class _Column:
    """One question of the first table: the worst case of a probe with its parameters, in a scenario."""

    cells: dict[str, CellSummary]
    """By platform."""

    @property
    def first(self) -> CellSummary:
        return next(iter(self.cells.values()))

    @property
    def title(self) -> str:
        return cell_title(self.first.probe, self.first.parameters)

    def worst_ns(self, platform: str) -> float | None:
        """Give the figure to compare: the overhead, but of ``switch`` and ``wakeup`` the latency itself."""
        cell = self.cells.get(platform)
        if cell is None or cell.stats is None:
            return None
        return cell.stats.max_overhead_ns if cell.probe == "tick" else cell.stats.max_ns

    def valid_worst_ns(self, platform: str) -> float | None:
        cell = self.cells.get(platform)
        return self.worst_ns(platform) if cell is not None and cell.valid else None


def print_summary(summary: RunSummary, console: Console) -> None:
    """Print all tables of a run, its periods, and what a reader must know."""
    console.print(render_summary(summary))


def render_summary(summary: RunSummary) -> RenderableType:
    """Give everything that is printed of a run."""
    columns = _columns(summary.plain_cells)
    parts: list[RenderableType] = []
    scenarios = list(dict.fromkeys(column.first.scenario for column in columns))
    for scenario in scenarios:
        own = [column for column in columns if column.first.scenario == scenario]
        suffix = f", scenario {scenario}" if len(scenarios) > 1 else ""
        title = f"Worst case{suffix}: tick over its floor, longest switch, latest wakeup"
        parts += [Text(title, style="bold"), _worst_table(own)]
        for column in own:
            parts += [Text(), _cell_table(column, suffix)]
    parts.append(Text("\nover: the longest sample less the floor; p50 ratio: to native", style="dim"))
    parts += _periods(summary.plain_cells)
    parts += around_the_machines(summary)
    parts += _remarks(summary.cells)
    return Group(*parts)


def cell_title(probe: str, parameters: Mapping[str, object]) -> str:
    """Name a probe with its parameters, in a few letters: ``switch 1000``, ``wakeup 1ms``."""
    words = [
        format_duration(value) if key.endswith("_ns") and isinstance(value, int) else str(value)
        for key, value in sorted(parameters.items())
    ]
    return " ".join([probe, *words])


def _columns(cells: Sequence[CellSummary]) -> list[_Column]:
    groups: dict[tuple[str, ...], dict[str, CellSummary]] = {}
    for cell in cells:
        groups.setdefault((cell.scenario, cell_title(cell.probe, cell.parameters)), {})[cell.platform] = cell
    columns = [_Column(group) for group in groups.values()]
    return sorted(columns, key=lambda column: _PROBES.index(column.first.probe))


def _platforms(columns: Sequence[_Column]) -> list[str]:
    names = list(dict.fromkeys(platform for column in columns for platform in column.cells))
    return sorted(names, key=lambda name: name != "native")


def _worst_table(columns: Sequence[_Column]) -> Table:
    """Give the first table; the ratio to native stands in a line of its own, so that 80 columns are enough."""
    table = new_table()
    table.add_column("platform", no_wrap=True)
    units = [_unit([column.worst_ns(platform) for platform in column.cells]) for column in columns]
    for column, (unit, _) in zip(columns, units, strict=True):
        probe, _, parameters = column.title.partition(" ")
        table.add_column(Text(f"{probe}\n{parameters}\n{unit}", justify="right"), justify="right", no_wrap=True)
    platforms = _platforms(columns)
    for platform in platforms:
        row: list[str] = [platform]
        for column, (_, size) in zip(columns, units, strict=True):
            cell = column.cells.get(platform)
            mark = INVALID_MARK if cell is not None and not cell.valid else ""
            row.append(f"{_number(column.worst_ns(platform), size)}{mark}")
        table.add_row(*row)
        if platform != "native" and "native" in platforms:
            ratios = [_ratio(column, platform, "native") for column in columns]
            table.add_row("  to native", *ratios, style="dim")
    for emulated, paravirt in _PAIRS:
        if emulated in platforms and paravirt in platforms:
            ratios = [_ratio(column, emulated, paravirt) for column in columns]
            table.add_row(f"{emulated[5:8]} emul./paravirt", *ratios, style="italic")
    return table


def new_table(title: str | None = None) -> Table:
    """Give an empty table as all of ours look."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


def _cell_table(column: _Column, suffix: str) -> Table:
    """Give every figure of one probe with its parameters, a row for each platform."""
    table = new_table(f"{column.title}{suffix}")
    table.add_column("platform", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    all_stats = [cell.stats for cell in column.cells.values() if cell.stats is not None]
    units = {}
    for heading, key in _FIGURES:
        unit, size = _unit([_figure(key)(stats) for stats in all_stats])
        units[key] = size
        table.add_column(f"{heading}\n{unit}", justify="right", no_wrap=True)
    table.add_column("p50\nratio", justify="right", no_wrap=True)
    for platform in _platforms([column]):
        cell = column.cells[platform]
        if cell.stats is None:
            table.add_row(platform, "failed", *([notation.ABSENT] * (len(_FIGURES) + 1)), style="red")
            continue
        row = [f"{platform}{'' if cell.valid else ' ' + INVALID_MARK}", notation.count(cell.stats.count)]
        for _, key in _FIGURES:
            mark = UNRESOLVED_MARK if key in cell.stats.unresolved else ""
            row.append(f"{_number(_figure(key)(cell.stats), units[key])}{mark}")
        row.append("" if platform == "native" else _median_ratio(column, platform))
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


def _figure(key: str) -> Callable[[Stats], float]:
    def read(stats: Stats) -> float:
        value: float = getattr(stats, key)
        return value

    return read


def _periods(cells: Sequence[CellSummary]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for cell in cells:
        if cell.periods:
            words = "; ".join(
                period_words(one.period_s, one.rate_hz, one.cost_p50_ns) for one in cell.periods[:_PERIODS_SHOWN]
            )
            lines.append(Text(f"  {cell.platform}: {words}"))
    return [Text("\nFound to repeat in tick", style="bold"), *lines] if lines else []


def period_words(period_s: float, rate_hz: float, cost_ns: float) -> str:
    """Say what repeats: ``every 4.000 ms (250 Hz): 3.10 us``."""
    rate = f" ({rate_hz:.4g} Hz)" if rate_hz >= 2 else ""
    return f"every {notation.duration(period_s * 1e9)}{rate}: {notation.duration(cost_ns, 3)}"


def _remarks(cells: Sequence[CellSummary]) -> list[RenderableType]:
    """Explain the marks that were used, and give each finding once with the platforms that it is about."""
    parts: list[RenderableType] = []
    if any(cell.stats is not None and cell.stats.unresolved for cell in cells):
        parts.append(Text(f"\n{UNRESOLVED_MARK} less than one sample lies beyond this percentile: it is the maximum"))
    for title, style, texts_of in (
        (f"{INVALID_MARK} Must not be used, or failed", "bold yellow", _reasons),
        ("Limits these results", "bold", _limits),
    ):
        about: dict[str, list[str]] = {}
        for cell in cells:
            for text in texts_of(cell):
                about.setdefault(text, []).append(f"{cell.platform} {cell_title(cell.probe, cell.parameters)}")
        if about:
            parts.append(Text(f"\n{title}", style=style))
            parts += [Text(f"  {text} [{_about(names, cells)}]") for text, names in about.items()]
    return parts


def _reasons(cell: CellSummary) -> list[str]:
    return cell.reasons


def _limits(cell: CellSummary) -> list[str]:
    return cell.limits


def _about(names: Sequence[str], cells: Sequence[CellSummary]) -> str:
    if len(names) == len(cells):
        return "all cells"
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _unit(values: Sequence[float | None]) -> tuple[str, float]:
    """Choose the largest unit in which the smallest value is still a tenth or more."""
    known = [value for value in values if value]
    if not known:
        return _UNITS[2]
    smallest = min(known)
    return next((unit for unit in _UNITS if smallest >= unit[1] / 10), _UNITS[-1])


def _number(nanoseconds: float | None, unit_ns: float) -> str:
    """Write a number with three digits or more, and thousands apart."""
    if nanoseconds is None:
        return notation.ABSENT
    value = nanoseconds / unit_ns
    whole_digits = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{max(0, _DIGITS - 1 - whole_digits)}f}"


def _ratio(column: _Column, platform: str, reference: str) -> str:
    value, base = column.valid_worst_ns(platform), column.valid_worst_ns(reference)
    return notation.ratio(value / base) if value is not None and base else notation.ABSENT


def _median_ratio(column: _Column, platform: str) -> str:
    native, cell = column.cells.get("native"), column.cells[platform]
    if native is None or native.stats is None or cell.stats is None or not (native.valid and cell.valid):
        return notation.ABSENT
    return notation.ratio(cell.stats.p50_ns / native.stats.p50_ns) if native.stats.p50_ns else notation.ABSENT
