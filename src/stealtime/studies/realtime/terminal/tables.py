"""Missed deadlines and latencies, platforms beside each other."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, new_table
from stealtime.studies.realtime.analysis.model import RealTimeCell, Share, Tail
from stealtime.studies.realtime.wording import NOTES, invalid_sentences, set_words


def render(cells: Sequence[RealTimeCell]) -> RenderableType:
    """Give the tables of all cells of a run, the platforms of a set beside each other."""
    ordered = sorted(cells, key=lambda cell: (set_words(cell), cell.scenario))
    parts: list[RenderableType] = [_missed_table(ordered), Text(), _latency_table(ordered), Text(), *map(Text, NOTES)]
    return Group(*parts, *map(Text, invalid_sentences(cells)), Text())


def _named(title: str, cells: Sequence[RealTimeCell], *columns: str) -> tuple[Table, list[list[str]]]:
    table = new_table(title)
    for name in ("task set", "scenario", "platform"):
        table.add_column(name)
    for name in columns:
        table.add_column(name, justify="right")
    heads = []
    for cell in cells:
        mark = ("" if cell.valid else f" {INVALID_MARK}") + (", traced" if cell.traced else "")
        heads.append([set_words(cell), cell.scenario, cell.platform + mark])
    return table, heads


def _missed_table(cells: Sequence[RealTimeCell]) -> Table:
    columns = ("sets", "utilization", "jobs", "missed", "share", "sets that missed", "overruns", "not started")
    table, heads = _named("Deadlines: jobs that were not done in time", cells, *columns)
    for cell, head in zip(cells, heads, strict=True):
        one = cell.repetitions
        table.add_row(
            *head,
            str(len(one)),
            _range([repetition.utilization for repetition in one]),
            str(cell.released),
            str(cell.missed),
            _share(cell.missed_share),
            f"{cell.sets_missed} of {len(one)} {_interval(cell.sets_missed_share)}".rstrip(),
            str(sum(repetition.overruns for repetition in one)),
            str(sum(repetition.unstarted for repetition in one)),
        )
    return table


def _latency_table(cells: Sequence[RealTimeCell]) -> Table:
    table, heads = _named(
        "From release to start, and from release to finish as a share of the deadline (p50, p99, p99.9, worst)",
        cells,
        "jobs of the most urgent task",
        "its start latency",
        "start latency of all",
        "response",
    )
    for cell, head in zip(cells, heads, strict=True):
        urgent = cell.urgent_latency_ns
        table.add_row(
            *head,
            notation.ABSENT if urgent is None else str(urgent.count),
            _times(urgent),
            _times(cell.start_latency_ns),
            _shares(cell.response_share),
        )
    return table


def _range(values: Sequence[float]) -> str:
    if not values:
        return notation.ABSENT
    least, most = min(values), max(values)
    return f"{least:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"{least:.2f} to {most:.2f}"


def _share(share: Share | None) -> str:
    return notation.ABSENT if share is None else f"{notation.percent(share.share)} {_interval(share)}".rstrip()


def _interval(share: Share | None) -> str:
    if share is None or share.low is None or share.high is None:
        return ""
    return f"({notation.percent(share.low)} to {notation.percent(share.high)})"


def _times(tail: Tail | None) -> str:
    if tail is None:
        return notation.ABSENT
    return ", ".join(notation.duration(value, 3) for value in (tail.p50, tail.p99, tail.p999, tail.max))


def _shares(tail: Tail | None) -> str:
    if tail is None:
        return notation.ABSENT
    return ", ".join(notation.percent(value) for value in (tail.p50, tail.p99, tail.p999, tail.max))
