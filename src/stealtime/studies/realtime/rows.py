"""Missed deadlines and latencies, platforms beside each other: the rows of the terminal and of the page."""

from collections.abc import Callable, Iterator, Sequence

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, TableOfWords
from stealtime.studies.realtime.analysis.model import RealTimeCell, Share, Tail
from stealtime.studies.realtime.wording import in_common, set_order


def tables_of(cells: Sequence[RealTimeCell]) -> tuple[str | None, list[TableOfWords]]:
    """Give the tables of all cells of a run, the platforms of a set beside each other.

    Returns:
        What all rows have in common and do not repeat, if there is anything, and the tables.
    """
    names = _Names(sorted(cells, key=lambda cell: (*set_order(cell), cell.scenario)))
    shared = f"All task sets: {', '.join(names.shared)}" if names.shared else None
    return shared, [_missed_table(names), _latency_table(names)]


def short_table(cells: Sequence[RealTimeCell]) -> TableOfWords:
    """Give what a screen has room for: how many jobs were late, and how late the most urgent task began."""
    names = _Names(sorted(cells, key=lambda cell: (*set_order(cell), cell.scenario)))
    rows = []
    for cell, head in names.heads():
        latest = notation.ABSENT if cell.urgent_latency_ns is None else notation.duration(cell.urgent_latency_ns.max)
        rows.append((cell, (*head, str(cell.released), _share(cell.missed_share), latest)))
    return names.table("Deadlines", ("jobs", "missed", "latest start of the most urgent"), rows)


class _Names:
    """What the rows of all tables begin with, and what they have in common and do not repeat."""

    def __init__(self, cells: Sequence[RealTimeCell]) -> None:
        self.cells = cells
        shared, self._sets = in_common(cells)
        scenarios = {cell.scenario for cell in cells}
        self._has_scenarios = len(scenarios) > 1
        self._tells_traced = len({cell.traced for cell in cells}) > 1
        self.shared = list(shared)
        if cells and not self._has_scenarios:
            self.shared.append(f"scenario {cells[0].scenario}")
        if cells and not self._tells_traced and cells[0].traced:
            self.shared.append("traced")

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[tuple[RealTimeCell, tuple[str, ...]]]
    ) -> TableOfWords:
        heads = ("task set", "platform, scenario" if self._has_scenarios else "platform", *columns)
        invalid = tuple(number for number, (cell, _) in enumerate(rows) if not cell.valid)
        return TableOfWords(title, heads, [row for _, row in rows], named=2, whole=(1,), invalid=invalid)

    def heads(self, *, only_measured: bool = False) -> Iterator[tuple[RealTimeCell, tuple[str, str]]]:
        """Give each cell with its first two columns; a set is named once for all platforms beside each other."""
        last = None
        for number, cell in enumerate(self.cells):
            if only_measured and not cell.repetitions:
                continue
            words = self._sets[number]
            scenario = f", {cell.scenario}" if self._has_scenarios else ""
            traced = ", traced" if self._tells_traced and cell.traced else ""
            mark = "" if cell.valid else f" {INVALID_MARK}"
            yield cell, ("" if words == last else words, f"{cell.platform}{scenario}{traced}{mark}")
            last = words


def _missed_table(names: _Names) -> TableOfWords:
    columns = ("sets", "utilization", "jobs", "missed", "share of jobs", "sets that missed", "overruns", "not started")
    rows = []
    for cell, head in names.heads():
        one = cell.repetitions
        row = (
            *head,
            str(len(one)),
            _range([repetition.utilization for repetition in one]),
            str(cell.released),
            str(cell.missed),
            _share(cell.missed_share),
            _share(cell.sets_missed_share),
            str(sum(repetition.overruns for repetition in one)),
            str(sum(repetition.unstarted for repetition in one)),
        )
        rows.append((cell, row))
    return names.table("Deadlines: jobs that were not done in time", columns, rows)


def _latency_table(names: _Names) -> TableOfWords:
    rows: list[tuple[RealTimeCell, tuple[str, ...]]] = []
    for cell, head in names.heads(only_measured=True):
        tails: tuple[tuple[str, Tail | None, Callable[[float], str]], ...] = (
            ("start, most urgent task", cell.urgent_latency_ns, notation.duration),
            ("start, all tasks", cell.start_latency_ns, notation.duration),
            ("finish, of the deadline", cell.response_share, notation.percent),
        )
        for number, (what, tail, notate) in enumerate(tails):
            rows.append((cell, (*(head if number == 0 else ("", "")), what, *_columns(tail, notate))))
    return names.table("Latency of jobs", ("from release to", "jobs", "p50", "p99", "p99.9", "worst"), rows)


def _columns(tail: Tail | None, notate: Callable[[float], str]) -> list[str]:
    if tail is None:
        return ["0", *[notation.ABSENT] * 4]
    return [str(tail.count), *map(notate, (tail.p50, tail.p99, tail.p999, tail.max))]


def _range(values: Sequence[float]) -> str:
    if not values:
        return notation.ABSENT
    least, most = min(values), max(values)
    return f"{least:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"{least:.2f} to {most:.2f}"


def _share(share: Share | None) -> str:
    if share is None:
        return notation.ABSENT
    if share.low is None or share.high is None:
        return notation.percent(share.share)
    return f"{notation.percent(share.share)} ({notation.percent(share.low)} to {notation.percent(share.high)})"
