"""What ``compare RUN --published NAME`` prints: the paper's tables with ours, the ratios, the verdicts in words."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.studies.latency.published.comparison_model import (
    GrowthRow,
    Judgement,
    MeanRow,
    PublishedComparison,
    TableRow,
    Verdict,
)
from stealtime.studies.latency.terminal.paper import render_paper_tables, title_of_test

STYLES: dict[Verdict, str] = {"agrees": "green", "disagrees": "red", "not judged": "dim"}
_VERDICTS: tuple[Verdict, ...] = ("agrees", "disagrees", "not judged")


def render_published_comparison(comparison: PublishedComparison) -> RenderableType:
    """Give everything that is printed of a run beside published figures."""
    return Group(
        Text(f"ours    {comparison.run_id}\ntheirs  {comparison.source}\n"),
        *render_paper_tables(comparison, with_theirs=True),
        Text(),
        Text("The emulated maximum as a multiple of the paravirtual one", style="bold"),
        _ratio_table(comparison.rows),
        Text("\nContention: the maximum in one scenario as a multiple of that in another", style="bold"),
        _growth_table(comparison.growth),
        Text("\nGeometric means of emulated/paravirtual", style="bold"),
        _mean_table(comparison.means),
        *_legend(comparison),
        *_verdicts(comparison),
        *_list("How ours differs from theirs", comparison.differences),
        *_list("Of the published figures themselves", comparison.remarks),
        Text(f"\nRule: {comparison.rule}", style="dim"),
    )


def summary_sentence(comparison: PublishedComparison) -> str:
    """Count the verdicts in a sentence, or two."""
    agree, disagree, unknown = (comparison.count(verdict) for verdict in _VERDICTS)
    total = len(comparison.judgements)
    sentence = f"Of {total} ratios {agree} agree with the paper's, {disagree} disagree, {unknown} could not be judged."
    would_agree, would_disagree = (comparison.count_but_for_scaling(verdict) for verdict in _VERDICTS[:2])
    if would_agree + would_disagree == 0:
        return sentence
    return f"{sentence} But for scaling, {would_agree} of these would agree and {would_disagree} disagree."


def _ratio_table(rows: Sequence[TableRow]) -> Table:
    table = new_table()
    for heading in ("scenario", "test"):
        table.add_column(heading, no_wrap=True)
    _add_judgement_columns(table)
    for row in rows:
        judgement = row.emulated_over_paravirt
        style = STYLES[judgement.verdict]
        table.add_row(f"{row.number} {row.scenario}", title_of_test(row.test), *_cells(judgement), style=style)
    return table


def _growth_table(rows: Sequence[GrowthRow]) -> Table:
    table = new_table()
    for heading in ("scenarios", "test", "of"):
        table.add_column(heading, no_wrap=True)
    _add_judgement_columns(table)
    for row in rows:
        subject = (f"{row.contended_number} / {row.base_number}", title_of_test(row.test), row.role)
        table.add_row(*subject, *_cells(row.growth), style=STYLES[row.growth.verdict])
    return table


def _mean_table(rows: Sequence[MeanRow]) -> Table:
    table = new_table()
    table.add_column("test", no_wrap=True)
    for heading in ("theirs\nall", "\nof", "theirs\nsame", "\nours", "ours\np99.99", "\nof"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("\nverdict", no_wrap=True)
    for row in rows:
        table.add_row(
            "all" if row.test == "all" else title_of_test(row.test),
            notation.ratio(row.theirs),
            str(row.theirs_count),
            notation.ratio(row.theirs_of_the_same),
            notation.ratio(row.mean.ours),
            notation.ratio(row.mean.ours_p9999),
            str(row.ours_count),
            row.mean.verdict,
            style=STYLES[row.mean.verdict],
        )
    return table


def _add_judgement_columns(table: Table) -> None:
    for heading in ("theirs", "ours", "ours\np99.99"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)


def _cells(judgement: Judgement) -> list[str]:
    figures = (judgement.theirs, judgement.ours, judgement.ours_p9999)
    verdict = judgement.verdict if judgement.but_for_scaling is None else f"({judgement.but_for_scaling})"
    return [*(notation.ratio(figure) for figure in figures), verdict]


def _legend(comparison: PublishedComparison) -> list[RenderableType]:
    if not any(judgement.but_for_scaling for _, judgement in comparison.judgements):
        return []
    return [Text("(agrees), (disagrees): not judged; what it would be if the scenario were not scaled", style="dim")]


def _verdicts(comparison: PublishedComparison) -> list[RenderableType]:
    """Say of each ratio why it has its verdict; what was not judged for one reason is told once."""
    parts: list[RenderableType] = [Text(f"\n{summary_sentence(comparison)}", style="bold")]
    for verdict in _VERDICTS:
        about: dict[str, list[str]] = {}
        for subject, judgement in comparison.judgements:
            if judgement.verdict == verdict:
                about.setdefault(judgement.because or judgement.words, []).append(subject)
        texts = [f"{join_subjects(subjects)}: {words}" for words, subjects in about.items()]
        parts += _list(verdict.capitalize(), texts, f"bold {STYLES[verdict]}")
    return parts


def join_subjects(subjects: Sequence[str]) -> str:
    """Name the tests of one subject together: ``scenario 5, tick, switch-2``."""
    tests: dict[str, list[str]] = {}
    for subject in subjects:
        rest, _, test = subject.rpartition(", ")
        tests.setdefault(rest, []).append(test)
    return "; ".join(", ".join([rest, *names]) for rest, names in tests.items())


def _list(title: str, texts: Sequence[str], style: str = "bold") -> list[RenderableType]:
    if not texts:
        return []
    return [Text(f"\n{title}", style=style), *(Padding(Text(f"- {text}"), (0, 0, 0, 2)) for text in texts)]
