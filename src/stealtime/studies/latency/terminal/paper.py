"""Tables laid out like those of the paper: its numbers, its rows, each figure in the unit that it would have there.

A row is a machine (bare, emulated, paravirtual), a column a question: the maximum overhead of the clock tick, or the
maximum switch latency between 2 and 1000 threads. ``show`` prints our figures, ``compare`` theirs beside them.
"""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, new_table
from stealtime.studies.latency.analysis.model import RunSummary
from stealtime.studies.latency.published.comparison import compare_with_published, comparison_of_campaign
from stealtime.studies.latency.published.comparison_model import BareRow, Maximum, PublishedComparison, TableRow
from stealtime.studies.latency.published.library import find_published
from stealtime.studies.latency.published.model import ROLES, Role
from stealtime.studies.latency.published.platforms import is_translated

_MACHINES: dict[Role, str] = {"bare": "bare machine", "emulated": "emulated", "paravirt": "paravirtual"}
DEFAULT_PAPER = "hyperv2013"
"""Whose tables a run of another campaign is printed in when they are asked for: so far there is one paper."""
_MILLION = 1_000_000
_DIGITS = 3
"""Of our figures; the paper gives two to four."""


def tables_of_run(summary: RunSummary, *, wanted: bool | None) -> RenderableType | None:
    """Give the figures of a run in the tables of the paper that it redoes, if it does.

    Args:
        summary: Of the run.
        wanted: False for never; None for only if the run's campaign redoes a paper; True also for other campaigns
            with cells that fit.

    Raises:
        StealtimeError: The tables are wanted, and no cell fits them.
    """
    if wanted is False:
        return None
    comparison = comparison_of_campaign(summary)
    if comparison is None and wanted:
        comparison = compare_with_published(summary, find_published(DEFAULT_PAPER))
    return None if comparison is None else Group(*render_paper_tables(comparison, with_theirs=False), Text())


def render_paper_tables(comparison: PublishedComparison, *, with_theirs: bool) -> list[RenderableType]:
    """Give the tables of a run in the paper's order; a scenario that has no figure of ours says why instead.

    Args:
        comparison: Of the run with the paper.
        with_theirs: Whether the paper's figures stand beside ours, and every table is shown.
    """
    parts: list[RenderableType] = [*platform_lines(comparison)]
    for table, bare in groupby(comparison.bare, key=lambda row: row.table):
        title = f"{table}: thread switch latency of the bare machine"
        parts += [Text(), Text(title, style="bold"), _bare_table(list(bare), with_theirs)]
    said: set[str] = set()
    for (number, scenario), rows_of_scenario in groupby(comparison.rows, key=lambda row: (row.number, row.scenario)):
        rows = list(rows_of_scenario)
        parts += [Text(), Text(_scenario_title(number, scenario, rows[0].neighbours), style="bold")]
        # The bare machine's figures stand in every table; what limits them is said where they come first.
        notes = [note for note in _notes(rows) if note not in said]
        said.update(note for note in notes if note.startswith(INVALID_MARK))
        parts += [Text(f"  {note}", style="dim") for note in notes]
        if not with_theirs and not any(_guests(rows)):
            continue
        for table, rows_of_table in groupby(rows, key=lambda row: row.table):
            own = list(rows_of_table)
            parts += [Text(), Text(f"{table}: {_subject(own)}", style="bold"), _scenario_table(own, with_theirs)]
    parts.append(Text(_legend(comparison, with_theirs), style="dim"))
    return parts


def platform_lines(comparison: PublishedComparison) -> list[Text]:
    """Say which of our platforms stands for which machine of the paper."""
    return [
        Text(f"{_MACHINES[one.role]}: {one.platform or notation.ABSENT}, {one.words}") for one in comparison.platforms
    ]


def title_of_test(test: str) -> str:
    """Name a test as the tables do: ``clock tick``, ``switch, 1000 threads``."""
    return "clock tick" if test == "tick" else f"switch, {test.removeprefix('switch-')} threads"


def _scenario_title(number: int, scenario: str, neighbours: str) -> str:
    return f"Scenario {number}: {scenario}" + (f", beside {neighbours}" if neighbours else "")


def _subject(rows: Sequence[TableRow]) -> str:
    is_tick = rows[0].test == "tick"
    return "clock tick processing duration" if is_tick else "thread switch latency, maximum between threads"


def _guests(rows: Sequence[TableRow]) -> list[Maximum]:
    return [one for row in rows for one in row.maxima if one.role != "bare" and one.ours_ns is not None]


def _notes(rows: Sequence[TableRow]) -> list[str]:
    """Say, once for a scenario, how it was scaled and what may not be used."""
    texts = [f"scaled: {one.scaled}" for one in _guests(rows) if one.scaled is not None]
    texts += [
        f"{INVALID_MARK} {one.unusable}"
        for row in rows
        for one in row.maxima
        if one.unusable is not None and not one.is_only_scaled and one.platform is not None
    ]
    return list(dict.fromkeys(texts))


def _bare_table(rows: Sequence[BareRow], with_theirs: bool) -> Table:
    table = new_table()
    table.add_column("test", no_wrap=True)
    _add_figure_columns(table, "maximum", with_theirs)
    for row in rows:
        table.add_row(title_of_test(row.test), *_figures(row.maximum, with_theirs))
    return table


def _scenario_table(rows: Sequence[TableRow], with_theirs: bool) -> Table:
    """Give one table of the paper: a row for each machine, a column for each test that stands in it."""
    table = new_table()
    table.add_column("machine", no_wrap=True)
    for row in rows:
        question = "maximum overhead" if row.test == "tick" else f"{row.test.removeprefix('switch-')} threads"
        _add_figure_columns(table, question, with_theirs)
    for role in ROLES:
        maxima = [row.maximum(role) for row in rows]
        figures = (text for one in maxima for text in _figures(one, with_theirs))
        table.add_row(f"{_MACHINES[role]}{_mark_of_platform(maxima[0].platform)}", *figures)
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


def _figures(one: Maximum, with_theirs: bool) -> tuple[str, str, str]:
    is_marked = one.ours_ns is not None and one.unusable is not None and not one.is_only_scaled
    ours = f"{notation.duration(one.ours_ns, _DIGITS)}{INVALID_MARK if is_marked else ''}"
    count = notation.ABSENT if one.samples is None else _count(one.samples)
    if with_theirs:
        # As many digits as they gave.
        return notation.trimmed_duration(round(one.theirs_ns)), ours, count
    return ours, notation.duration(one.ours_p50_ns, _DIGITS), count


def _count(samples: int) -> str:
    """Write a number of samples narrowly enough for two of them in 80 columns."""
    return notation.count(samples) if samples < _MILLION else f"{samples / _MILLION:.1f} M"


def _legend(comparison: PublishedComparison, with_theirs: bool) -> str:
    theirs = f", theirs is of {comparison.their_samples:,}" if with_theirs else ""
    layout = "" if with_theirs else f"; laid out like the tables of {comparison.source}"
    return f"\nn: of how many samples our maximum is{theirs}{layout}"
