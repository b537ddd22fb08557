"""Missed deadlines and latencies, platforms beside each other."""

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, new_table
from stealtime.studies.realtime.analysis.model import RealTimeCell, Share, Tail
from stealtime.studies.realtime.wording import NOTES, invalid_sentences, set_order, set_words


def render(cells: Sequence[RealTimeCell]) -> RenderableType:
    """Give the tables of all cells of a run, the platforms of a set beside each other."""
    ordered = sorted(cells, key=lambda cell: (*set_order(cell), cell.scenario))
    parts: list[RenderableType] = [_missed_table(ordered), Text(), _latency_table(ordered), Text(), *map(Text, NOTES)]
    return Group(*parts, *map(Text, invalid_sentences(cells)), Text())


def _named(title: str, *columns: str) -> Table:
    table = new_table(title)
    for name in ("task set", "platform, scenario"):
        table.add_column(name)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _head(cell: RealTimeCell) -> tuple[str, str]:
    mark = ("" if cell.valid else f" {INVALID_MARK}") + (", traced" if cell.traced else "")
    return set_words(cell), f"{cell.platform}, {cell.scenario}{mark}"


def _missed_table(cells: Sequence[RealTimeCell]) -> Table:
    columns = ("sets", "utilization", "jobs", "missed", "share of jobs", "sets that missed", "overruns", "not started")
    table = _named("Deadlines: jobs that were not done in time", *columns)
    for cell in cells:
        one = cell.repetitions
        table.add_row(
            *_head(cell),
            str(len(one)),
            _range([repetition.utilization for repetition in one]),
            str(cell.released),
            str(cell.missed),
            _share(cell.missed_share),
            _share(cell.sets_missed_share),
            str(sum(repetition.overruns for repetition in one)),
            str(sum(repetition.unstarted for repetition in one)),
        )
    return table


def _latency_table(cells: Sequence[RealTimeCell]) -> Table:
    table = _named("Latency of jobs", "from release to", "jobs", "p50", "p99", "p99.9", "worst")
    for cell in cells:
        if not cell.repetitions:
            continue
        rows: tuple[tuple[str, Tail | None, Callable[[float], str]], ...] = (
            ("start, most urgent task", cell.urgent_latency_ns, notation.duration),
            ("start, all tasks", cell.start_latency_ns, notation.duration),
            ("finish, of the deadline", cell.response_share, notation.percent),
        )
        for number, (what, tail, notate) in enumerate(rows):
            head = _head(cell) if number == 0 else ("", "")
            table.add_row(*head, what, *_columns(tail, notate))
    return table


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
