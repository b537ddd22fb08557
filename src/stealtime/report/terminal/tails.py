"""What ``show RUN --tails`` prints: beside the longest value seen, what may be said of longer ones."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.acceptance.wording import time_words
from stealtime.report.plain_table import cell_title, new_table
from stealtime.report.tails.document import TailEstimate, Tails


def render_tails(tails: Tails) -> RenderableType:
    lines: list[RenderableType] = [
        Text(
            "An estimate beside the longest value seen, not instead of it: it holds for an hour like the time that was "
            f"watched. Where a check fails there is none; good series fail one in at most {tails.level_percent:g} % of "
            "cases.\n",
            style="dim",
        )
    ]
    for one in tails.cells:
        lines += [*_cell(one, tails), Text()]
    if not tails.cells:
        lines.append(Text("no cell of this run has a series of values"))
    return Group(*lines)


def _cell(one: TailEstimate, tails: Tails) -> Iterator[RenderableType]:
    title = f"{one.platform}, {one.scenario}, {cell_title(one.probe, one.parameters)}"
    seen = f"longest of {one.events:,} in {time_words(one.watched_s)}: {notation.duration(one.longest_ns)}"
    yield Text.assemble((title, "bold"), f": {seen}")
    for reason in one.refused_because:
        yield Text(f"  no estimate: {reason}", style="magenta")
    if one.levels and one.taken is not None:
        yield _table(one, tails)
        taken = one.thresholds[one.taken]
        yield Text(
            f"  {taken.exceedances} values over {notation.duration(taken.threshold_ns)}, shape {taken.shape:.2f}; "
            f"{one.blocks} blocks of {one.block_events:,}; least p of the checks "
            f"{min(check.p_value for check in one.checks):.2g}",
            style="dim",
        )
    elif not one.refused_because:
        yield Text("  values are so rare that an hour seldom has one", style="magenta")


def _table(one: TailEstimate, tails: Tails) -> Table:
    table = new_table()
    table.add_column("  exceeded in an hour\n  with probability", justify="right")
    for heading in (
        "value",
        f"{tails.confidence_percent:g} % interval",
        "other thresholds",
        "maxima of blocks",
        "once in so many\ntimes the watch",
    ):
        table.add_column(heading, justify="right")
    for level in one.levels:
        table.add_row(
            f"{level.per_hour:g}",
            notation.duration(level.level_ns, 3),
            _range(level.low_ns, level.high_ns),
            _range(level.least_ns, level.most_ns),
            f"{notation.duration(level.blocks_ns, 3)} ({_range(level.blocks_low_ns, level.blocks_high_ns)})",
            f"{level.beyond_watched:,.3g}",
        )
    return table


def _range(low_ns: float, high_ns: float | None) -> str:
    high = "not bounded" if high_ns is None else notation.duration(high_ns, 3)
    return f"{notation.duration(low_ns, 3)} to {high}"
