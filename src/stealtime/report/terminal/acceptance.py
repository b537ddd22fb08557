"""What ``show RUN --accept NAME`` prints."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.acceptance.document import Acceptance, Verdict
from stealtime.report.acceptance.wording import sentence, time_words
from stealtime.report.plain_table import cell_title, new_table

_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "bold red",
    "watched too short": "yellow",
    "not judged": "magenta",
}


def render_acceptance(acceptance: Acceptance) -> RenderableType:
    """Give the verdict, a line for each cell and bar, and what the source asks for besides."""
    lines: list[RenderableType] = [
        Text.assemble(
            (f"{acceptance.bars}: ", "bold"),
            (acceptance.verdict, _STYLES[acceptance.verdict]),
            f"  {acceptance.run_id}",
        ),
        Text(acceptance.title, style="dim"),
        Text(),
        _table(acceptance),
    ]
    for one in acceptance.cells:
        if one.verdict != "passed":
            name = f"{one.platform}, {one.scenario}, {cell_title(one.probe, one.parameters)}"
            lines.append(Text(f"{name}: {sentence(one)}"))
    lines += [Text(f"{quantity}: not judged: no cell of this run measures it") for quantity in acceptance.unmeasured]
    lines += [Text(f"not judged: {words}") for words in acceptance.missing]
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
