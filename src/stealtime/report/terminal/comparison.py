"""The tables that ``compare`` prints: for each cell that two runs share, ratios with their confidence intervals."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.comparison import CellComparison, Comparison, StatisticComparison
from stealtime.report.plain_table import cell_title, new_table

_STYLES = {"higher": "red", "lower": "green", "not judged": "dim"}


def render_comparison(comparison: Comparison) -> RenderableType:
    percent = f"{comparison.confidence:.0%}"
    parts: list[RenderableType] = [
        Text(f"a  {comparison.a}\nb  {comparison.b}"),
        *_circumstances(comparison),
        Text(f"ratio of b to a, with its {percent} confidence interval"),
    ]
    if comparison.not_alone:
        parts.append(Text("\nNot alone, so a difference may be of who ran beside it:", style="yellow"))
        parts += [Text(f"  {line}", style="yellow") for line in comparison.not_alone]
    for cell in comparison.cells:
        parts += [Text(), _cell_table(cell), *_explain(cell.statistics)]
    if comparison.judged:
        parts.append(Text(f"\n{_chance(comparison)}"))
    for side, names in (("a", comparison.only_in_a), ("b", comparison.only_in_b)):
        if names:
            parts.append(Text(f"\nOnly in {side}: {'; '.join(names)}"))
    if not comparison.cells:
        parts.append(Text("\nThe runs have no cell in common, so there is nothing to compare.", style="yellow"))
    return Group(*parts)


def _circumstances(comparison: Comparison) -> list[RenderableType]:
    """Say first what was not the same, since it may be what the figures show."""
    if not comparison.differences:
        return []
    lines = [Text(f"  {one.sentence}") for one in comparison.differences]
    return [Text("\nNot the same in both, a and b:", style="bold"), *lines, Text()]


def _chance(comparison: Comparison) -> str:
    """Say how many differences are no news: who looks at a hundred figures finds five."""
    count, judged = len(comparison.different), len(comparison.judged)
    return (
        f"{count} of {judged} judged figures differ; if both runs were of the same machine, up to "
        f"{comparison.different_by_chance:.1f} would differ by chance"
    )


def _cell_table(cell: CellComparison) -> Table:
    trials = f"{cell.a_trials} and {cell.b_trials} trials"
    title = f"{cell.platform}, {cell.scenario}: {cell_title(cell.probe, cell.parameters)}"
    table = new_table(f"{title}{', traced' if cell.traced else ''} ({trials})")
    table.add_column("", no_wrap=True)
    for heading in ("a", "b", "ratio", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("b is", no_wrap=True)
    for one in cell.statistics:
        table.add_row(
            *one.words,
            notation.ABSENT if one.ratio is None else f"{one.ratio:.3f}",
            _interval(one),
            one.verdict_words,
            style=_STYLES.get(one.verdict),
        )
    return table


def _interval(one: StatisticComparison) -> str:
    if one.ratio_low is None:
        return notation.ABSENT
    if one.ratio_high is None:
        return f"over {one.ratio_low:.3f}"
    if one.ratio_low == 0.0:
        return f"under {one.ratio_high:.3f}"
    return f"[{one.ratio_low:.3f}, {one.ratio_high:.3f}]"


def _explain(statistics: Sequence[StatisticComparison]) -> list[Text]:
    """Say once how the intervals were found, and for each reason what was not judged because of it."""
    lines = [Text(f"  {method}", style="dim") for method in dict.fromkeys(one.method for one in statistics) if method]
    about: dict[str, list[str]] = {}
    for one in statistics:
        if one.because is not None:
            about.setdefault(one.because, []).append(one.words[0])
    return lines + [
        Text(f"  {', '.join(names)}: not judged, because {because}", style="dim") for because, names in about.items()
    ]
