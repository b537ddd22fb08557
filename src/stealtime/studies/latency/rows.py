"""Cells beside each other, each held against the native one: what the tables of terminal and page are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.interval import Interval
from stealtime.report.order import probe_rank
from stealtime.report.plain_table import cell_title
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import tail_overhead, tail_ratio


@dataclass(frozen=True)
class Row:
    """A cell, and what it is compared with."""

    cell: CellSummary
    native: CellSummary | None
    """The same measured natively, if that is valid; None for itself."""

    @property
    def tail(self) -> Interval | None:
        """Its overhead at the 99.9th percentile, with what repetitions say of it; None where they are too few."""
        return tail_overhead(self.cell)

    @property
    def tail_ns(self) -> float | None:
        """The same, without an interval of all samples together; None with too few, or if a limit explains it."""
        return self.cell.tail_overhead_ns if self.tail is None else self.tail.value

    @property
    def tail_ratio(self) -> Interval | None:
        """Its multiple of the native one; None where either has no interval."""
        return None if self.native is None else tail_ratio(self.cell, self.native)

    @property
    def worst_ratio(self) -> float | None:
        """That of the longest overheads; None besides where a pause of a limit may be a part of either."""
        native = self.native
        if native is None or self.cell.comparable_worst_ns is None or native.comparable_worst_ns is None:
            return None
        return _ratio(self.cell.worst_overhead_ns, native.worst_overhead_ns)

    @property
    def median_ratio(self) -> float | None:
        own, base = (None if one is None or one.stats is None else one.stats.p50_ns for one in (self.cell, self.native))
        return _ratio(own, base) if self.cell.valid else None

    @property
    def not_alone(self) -> str | None:
        """Who was beside it that nobody asked for, or beside the native one; None where nobody was."""
        native = None if self.native is None else self.native.not_alone
        return self.cell.not_alone or (None if native is None else f"native was {native}")


@dataclass(frozen=True)
class Column:
    """One question: a probe with its parameters, in a scenario."""

    rows: Mapping[str, Row]
    """By platform."""

    @property
    def first(self) -> CellSummary:
        """One of its cells, for what they have in common."""
        return next(iter(self.rows.values())).cell

    @property
    def title(self) -> str:
        return cell_title(self.first.probe, self.first.parameters)


def columns_of(cells: Sequence[CellSummary]) -> list[Column]:
    """Put the cells of one question together, the probes in their order."""
    groups: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in cells:
        groups.setdefault((cell.scenario, cell_title(cell.probe, cell.parameters)), []).append(cell)
    columns = [Column({row.cell.platform: row for row in rows_of(group)}) for group in groups.values()]
    return sorted(columns, key=lambda column: probe_rank(column.first.probe))


def rows_of(cells: Sequence[CellSummary]) -> list[Row]:
    """Hold the cells of one question against the native one."""
    natives = [cell for cell in cells if traits_of(cell.platform).is_native]
    native = next((cell for cell in natives if cell.valid), None)
    return [Row(cell, None if cell in natives else native) for cell in cells]


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
