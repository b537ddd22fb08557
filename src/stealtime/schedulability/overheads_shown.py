"""Measured overheads as a table: each series apart, and what could not be measured."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.report.plain_table import new_table
from stealtime.schedulability.measured import STATISTICS, MeasuredCondition, MeasuredOverheads, statistic_of
from stealtime.vocabulary.quantities import NANOSECONDS


class OverheadsPage:
    """Renders what a run measured, a table for each machine and number of tasks, and what it could not."""

    def __init__(self, measured: MeasuredOverheads) -> None:
        self._measured = measured

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for condition in self._measured.conditions:
            tasks = "1 task" if condition.tasks == 1 else f"{condition.tasks} tasks"
            yield Text.assemble((condition.machine, "bold"), f", {tasks}; times in us")
            yield _table(condition)
            yield from map(Text, _lines(condition))
            if condition.uncharged:
                yield _uncharged_table(condition)
            yield Text()
        for one in self._measured.unmeasured:
            yield Text.assemble(("not measured", "bold"), f": {one.sentence}")
        yield from map(Text, self._measured.remarks)


def _table(condition: MeasuredCondition) -> Table:
    table = new_table()
    for name in ("overhead", "series"):
        table.add_column(name)
    for name in ("samples", "average", "deviation", *STATISTICS[1:]):
        table.add_column(name, justify="right")
    for name, samples in condition.samples.items():
        shown = condition.boundaries.get(name, name).replace("_", " ")
        for series, values_ns in samples.series().items():
            if not len(values_ns):
                continue
            average, *others = (statistic_of(values_ns, statistic) for statistic in STATISTICS)
            figures = (f"{value / NANOSECONDS['us']:.2f}" for value in (average, _deviation(values_ns), *others))
            table.add_row(shown, series, str(len(values_ns)), *figures)
            shown = ""
    return table


def _deviation(values_ns: NDArray[np.float64]) -> float:
    """Give the standard deviation of one sample; 0 of a single one."""
    return float(values_ns.std(ddof=1)) if len(values_ns) > 1 else 0.0


def _uncharged_table(condition: MeasuredCondition) -> Table:
    table = new_table("takes the CPU beside, and is charged by no overhead")
    table.add_column("what")
    for name in ("times", "longest", "% of the CPU"):
        table.add_column(name, justify="right")
    for one in sorted(condition.uncharged, key=lambda one: -one.longest_ns):
        longest = f"{one.longest_ns / NANOSECONDS['us']:.2f}"
        table.add_row(one.what, f"{one.count:,}", longest, f"{one.share_ppm / 10_000:.3f}")
    return table


def _lines(condition: MeasuredCondition) -> Iterator[str]:
    counts = ", ".join(f"{name.replace('_', ' ').replace('.', ': ')} {n}" for name, n in condition.discards.items())
    yield f"not measured: {counts}" if counts else "nothing was left out"
    yield from condition.remarks
