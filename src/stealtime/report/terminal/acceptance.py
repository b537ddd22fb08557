"""What ``show RUN --accept NAME`` prints."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.acceptance.document import Acceptance, Verdict
from stealtime.report.acceptance.wording import time_words
from stealtime.report.plain_table import cell_title, new_table
from stealtime.report.terminal.thresholds import thresholds
from stealtime.report.verdict_lines import verdicts_of_bars

_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "bold red",
    "watched too short": "yellow",
    "not judged": "magenta",
}


def render_acceptance(acceptance: Acceptance) -> RenderableType:
    """Give the list of verdicts, a table of each cell and bar, and what the source asks for besides."""
    lines: list[RenderableType] = [
        thresholds(verdicts_of_bars(acceptance)),
        Text(),
        Text.assemble((acceptance.title, "dim"), f"  {acceptance.run_id}"),
        *([_table(acceptance)] if acceptance.cells else []),
    ]
    if acceptance.conditions is not None:
        lines.append(Text(f"\nNot checked, but asked for by the source: {acceptance.conditions}"))
    if acceptance.source is not None:
        lines.append(Text(f"Source: {acceptance.source}", style="dim"))
    return Group(*lines)


def _table(acceptance: Acceptance) -> Table:
    table = new_table()
    for heading in ("platform", "scenario", "cell", "quantity"):
        table.add_column(heading)
    for heading in ("at most", "longest", "over by", "watched", "of"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in acceptance.cells:
        table.add_row(
            one.platform,
            one.scenario,
            cell_title(one.probe, one.parameters),
            one.quantity,
            notation.trimmed_duration(one.at_most_ns),
            notation.duration(one.longest_ns),
            notation.duration(one.over_ns),
            time_words(one.watched_s),
            time_words(one.to_be_watched_s),
            Text(one.verdict, style=_STYLES[one.verdict]),
        )
    return table
