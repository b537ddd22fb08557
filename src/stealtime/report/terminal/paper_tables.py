"""Tables laid out like those of a publication: its numbers, its rows, each figure in the unit that it would have there.

A row is a machine, a column a question. ``show`` prints our figures, ``compare`` theirs beside them.
"""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.claims.comparison import compare_with_published, comparison_of_campaign
from stealtime.report.claims.document import FigurePair, PublishedComparison, RepeatedRow, TableRow
from stealtime.report.claims.library import find_published, published_names
from stealtime.report.claims.platforms import is_translated
from stealtime.report.plain_table import INVALID_MARK, new_table
from stealtime.report.summary import RunSummary

_MILLION = 1_000_000
_DIGITS = 3
"""Of our figures; papers give two to four."""


def tables_of_run(summary: RunSummary, study: str, *, wanted: bool | None) -> RenderableType | None:
    """Give the figures of a run in the tables of the paper that it redoes, if it does and that is one of a study's.

    Args:
        summary: Of the run.
        study: Whose papers are looked at; of a run of another campaign the first one.
        wanted: False for never; None for only if the run's campaign redoes a paper; True also for other campaigns
            with cells that fit.

    Raises:
        StealtimeError: The tables are wanted, and no cell fits them.
    """
    names = published_names(study)
    if wanted is False or not names:
        return None
    comparison = comparison_of_campaign(summary) if summary.campaign in names else None
    if comparison is None and wanted:
        comparison = compare_with_published(summary, find_published(names[0]))
    return None if comparison is None else Group(*render_paper_tables(comparison, with_theirs=False), Text())


def render_paper_tables(comparison: PublishedComparison, *, with_theirs: bool) -> list[RenderableType]:
    """Give the tables of a run in the paper's order; a scenario that has no figure of ours says why instead.

    Args:
        comparison: Of the run with the paper.
        with_theirs: Whether the paper's figures stand beside ours, and every table is shown.
    """
    parts: list[RenderableType] = [*platform_lines(comparison)]
    for title, repeated in groupby(comparison.repeated, key=lambda row: f"{row.source}: {row.heading}"):
        parts += [Text(), Text(title, style="bold"), _repeated_table(comparison, list(repeated), with_theirs)]
    said: set[str] = set()
    for name, rows_of_scenario in groupby(comparison.rows, key=lambda row: (row.number, row.scenario)):
        rows = list(rows_of_scenario)
        parts += [Text(), Text(_scenario_title(*name, rows[0].neighbours), style="bold")]
        # Who stands alone stands in every table; what limits its figures is said where they come first.
        notes = [note for note in _notes(rows) if note not in said]
        said.update(note for note in notes if note.startswith(INVALID_MARK))
        parts += [Text(f"  {note}", style="dim") for note in notes]
        if not with_theirs and not any(_beside(rows)):
            continue
        for source, rows_of_table in groupby(rows, key=lambda row: row.source):
            own = list(rows_of_table)
            title = f"{source}: {comparison.test(own[0].test).heading}"
            parts += [Text(), Text(title, style="bold"), _scenario_table(comparison, own, with_theirs)]
    parts.append(Text(_legend(comparison, with_theirs), style="dim"))
    return parts


def platform_lines(comparison: PublishedComparison) -> list[Text]:
    """Say which of our platforms stands for which machine of the paper."""
    return [Text(f"{one.role_words}: {one.platform or notation.ABSENT}, {one.words}") for one in comparison.platforms]


def _scenario_title(number: int | None, scenario: str, neighbours: str) -> str:
    name = scenario if number is None else f"{number}: {scenario}"
    return f"Scenario {name}" + (f", beside {neighbours}" if neighbours else "")


def _beside(rows: Sequence[TableRow]) -> list[FigurePair]:
    """Give the figures of ours that are of this scenario."""
    return [one for row in rows for one in row.figures if not one.stands_alone and one.ours is not None]


def _notes(rows: Sequence[TableRow]) -> list[str]:
    """Say, once for a scenario, how it was scaled and what may not be used."""
    texts = [f"scaled: {one.scaled}" for one in _beside(rows) if one.scaled is not None]
    texts += [
        f"{INVALID_MARK} {one.unusable}"
        for row in rows
        for one in row.figures
        if one.unusable is not None and not one.is_only_scaled and one.platform is not None
    ]
    return list(dict.fromkeys(texts))


def _repeated_table(comparison: PublishedComparison, rows: Sequence[RepeatedRow], with_theirs: bool) -> Table:
    table = new_table()
    table.add_column("test", no_wrap=True)
    _add_figure_columns(table, "maximum", with_theirs)
    for row in rows:
        table.add_row(comparison.test(row.test).title, *_figures(row.figure, comparison.unit, with_theirs))
    return table


def _scenario_table(comparison: PublishedComparison, rows: Sequence[TableRow], with_theirs: bool) -> Table:
    """Give one table of the paper: a row for each machine, a column for each test that stands in it."""
    table = new_table()
    table.add_column("machine", no_wrap=True)
    for row in rows:
        _add_figure_columns(table, comparison.test(row.test).question, with_theirs)
    for machine in comparison.platforms:
        own = [row.figure(machine.role) for row in rows]
        figures = (text for one in own for text in _figures(one, comparison.unit, with_theirs))
        table.add_row(f"{machine.role_words}{_mark_of_platform(machine.platform)}", *figures)
    return table


def _mark_of_platform(platform: str | None) -> str:
    """What runs a guest stands in every row: a figure of TCG must not be taken for one of KVM."""
    if platform is None:
        return ""
    if is_translated(platform):
        return " (TCG)"
    return " (KVM)" if "-kvm" in platform else ""


def _add_figure_columns(table: Table, question: str, with_theirs: bool) -> None:
    headings = (f"{question}\ntheirs", "\nours", "\nn") if with_theirs else (question, "median", "n")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)


def _figures(one: FigurePair, unit: str, with_theirs: bool) -> tuple[str, str, str]:
    is_marked = one.ours is not None and one.unusable is not None and not one.is_only_scaled
    ours = f"{notation.quantity(one.ours, unit, _DIGITS)}{INVALID_MARK if is_marked else ''}"
    count = notation.ABSENT if one.samples is None else _count(one.samples)
    if with_theirs:
        # As many digits as they gave.
        theirs = notation.trimmed_duration(round(one.theirs)) if unit == "ns" else notation.quantity(one.theirs, unit)
        return theirs, ours, count
    return ours, notation.quantity(one.ours_p50, unit, _DIGITS), count


def _count(samples: int) -> str:
    """Write a number of samples narrowly enough for two of them in 80 columns."""
    return notation.count(samples) if samples < _MILLION else f"{samples / _MILLION:.1f} M"


def _legend(comparison: PublishedComparison, with_theirs: bool) -> str:
    theirs = f", theirs is of {comparison.their_samples:,}" if with_theirs and comparison.their_samples else ""
    layout = "" if with_theirs else f"laid out like the tables of {comparison.source}"
    pairs = [one for row in comparison.rows for one in row.figures] + [row.figure for row in comparison.repeated]
    if all(one.samples is None for one in pairs):
        return f"\n{layout}" if layout else ""
    return f"\nn: of how many samples our maximum is{theirs}{layout and f'; {layout}'}"
