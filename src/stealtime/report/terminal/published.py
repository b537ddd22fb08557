"""What ``compare RUN --published NAME`` prints: the paper's tables with ours, the ratios, the verdicts in words."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.claims.document import ClaimGroup, Judgement, PublishedComparison, Verdict
from stealtime.report.plain_table import new_table
from stealtime.report.terminal.paper_tables import render_paper_tables

STYLES: dict[Verdict, str] = {"agrees": "green", "disagrees": "red", "not judged": "dim"}
_VERDICTS: tuple[Verdict, ...] = ("agrees", "disagrees", "not judged")


def render_published_comparison(comparison: PublishedComparison) -> RenderableType:
    parts: list[RenderableType] = []
    for group in comparison.groups:
        parts += [Text(f"\n{group.title}", style="bold"), _claim_table(comparison, group)]
    for group in comparison.groups:
        if group.means_title is not None:
            parts += [Text(f"\n{group.means_title}", style="bold"), _mean_table(comparison, group)]
    return Group(
        Text(f"ours    {comparison.run_id}\ntheirs  {comparison.source}\n"),
        *render_paper_tables(comparison, with_theirs=True),
        *parts,
        *_legend(comparison),
        *_verdicts(comparison),
        *_list("How ours differs from theirs", comparison.differences),
        *_list("Of the published figures themselves", comparison.remarks),
        Text(f"\nRule: {comparison.rule}", style="dim"),
    )


def _claim_table(comparison: PublishedComparison, group: ClaimGroup) -> Table:
    table = new_table()
    # Which machine a ratio of two machines is of stands in the title.
    names_role = group.kind != "machines"
    for heading in ("scenarios" if group.kind == "scenarios" else "scenario", "test", *(["of"] if names_role else [])):
        table.add_column(heading, no_wrap=True)
    # Not every study has a tail to tell of.
    with_tail = any(claim.judgement.ours_p9999 is not None for claim in group.claims)
    for heading in ("theirs", "ours", *(["ours\np99.99"] if with_tail else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    unit = comparison.unit if group.kind == "figures" else "ns" if group.kind == "periods" else None
    for claim in group.claims:
        stays = "" if claim.kind != "periods" or claim.base_number is None else f", as in {claim.base_number}"
        subject = [f"{claim.short_name}{stays}", comparison.title_of(claim), *([claim.role] if names_role else [])]
        table.add_row(*subject, *_cells(claim.judgement, unit, with_tail), style=STYLES[claim.judgement.verdict])
    return table


def _mean_table(comparison: PublishedComparison, group: ClaimGroup) -> Table:
    table = new_table()
    table.add_column("test", no_wrap=True)
    with_tail = any(row.mean.ours_p9999 is not None for row in group.means)
    tail = ["ours\np99.99"] if with_tail else []
    for heading in ("theirs\nall", "\nof", "theirs\nsame", "\nours", *tail, "\nof"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("\nverdict", no_wrap=True)
    for row in group.means:
        table.add_row(
            "all" if row.test == "all" else comparison.test(row.test).title,
            notation.ratio(row.theirs),
            str(row.theirs_count),
            notation.ratio(row.theirs_of_the_same),
            notation.ratio(row.mean.ours),
            *([notation.ratio(row.mean.ours_p9999)] if with_tail else []),
            str(row.ours_count),
            row.mean.verdict,
            style=STYLES[row.mean.verdict],
        )
    return table


def _cells(judgement: Judgement, unit: str | None, with_tail: bool) -> list[str]:
    figures = (judgement.theirs, judgement.ours, *([judgement.ours_p9999] if with_tail else []))
    verdict = judgement.verdict if judgement.but_for_scaling is None else f"({judgement.but_for_scaling})"
    return [*(notation.ratio(one) if unit is None else notation.quantity(one, unit) for one in figures), verdict]


def _legend(comparison: PublishedComparison) -> list[RenderableType]:
    if not any(judgement.but_for_scaling for _, judgement in comparison.judgements):
        return []
    return [Text("(agrees), (disagrees): not judged; what it would be if the scenario were not scaled", style="dim")]


def _verdicts(comparison: PublishedComparison) -> list[RenderableType]:
    """Say of each ratio why it has its verdict; what was not judged for one reason is told once."""
    parts: list[RenderableType] = [Text(f"\n{comparison.summary_sentence}", style="bold")]
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
