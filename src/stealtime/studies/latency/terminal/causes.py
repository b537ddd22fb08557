"""Whose fault the lost time is, as ``show`` prints it: a small table for each traced cell."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.studies.latency.content.cause_palette import UNEXPLAINED
from stealtime.studies.latency.content.causes import CauseLine, Causes, OverheadLine, Shift, TracedCell
from stealtime.studies.latency.wording.cause_wording import held_back_alone, signed_duration

_LEAST_SHARE = 0.01
"""Causes below it share a line, so that a cell takes no more than a few."""


def render_causes(causes: Causes) -> RenderableType | None:
    """Give what ``show`` prints of the causes; None where nothing was traced."""
    if not causes.cells:
        return None
    parts: list[RenderableType] = [Text("\nCauses of the spikes", style="bold")]
    for probe in causes.probes:
        for cell in probe.cells:
            parts += [Text(), *_cell(cell)]
        parts += [Text(f"\n{probe.title}: {words}", style="yellow") for words in held_back_alone(probe)]
    for rule in dict.fromkeys(cell.rule for cell in causes.cells if cell.rule):
        parts.append(Text(f"\nRule: {rule}", style="dim"))
    if causes.overhead_absent_because is not None:
        parts.append(Text(f"\nTracing overhead is not known: {causes.overhead_absent_because}", style="yellow"))
    if causes.overheads:
        parts += [Text("\nTracing overhead: with tracing minus without", style="bold"), _overheads(causes.overheads)]
    return Group(*parts)


def _cell(cell: TracedCell) -> list[RenderableType]:
    title = f"{cell.platform}, {cell.scenario}: {cell.probe}"
    refused = [
        Text(f"  {one.trial} was not attributed: {one.reason}{_hint(one.hint)}", style="yellow") for one in cell.refused
    ]
    if not cell.facts:
        return [Text(title, style="bold"), *refused]
    table = new_table(title)
    table.add_column("cause", no_wrap=True)
    for heading in ("lost", "share", "spikes", "largest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows(cell.lines):
        table.add_row(*row)
    table.add_row(
        "excess of judged spikes",
        notation.duration(cell.excess_ns),
        notation.percent(1.0 if cell.excess_ns > 0 else 0.0),
        notation.count(cell.judged),
        style="bold",
    )
    table.add_row(
        "not judged",
        notation.duration(cell.not_judged_ns),
        notation.ABSENT,
        notation.count(cell.not_judged),
        style="yellow" if cell.not_judged else None,
    )
    return [table, *(Padding(Text(words, style="dim"), (0, 0, 0, 2)) for words in _quality(cell)), *refused]


def _bound(error_ns: float) -> str:
    return notation.duration(error_ns, 3) if error_ns > 0 else "0 ns"


def _hint(hint: str | None) -> str:
    return "" if hint is None else f"\n  hint: {hint}"


def _rows(lines: Sequence[CauseLine]) -> list[list[str]]:
    """Give the causes that matter, the small ones added up, ``unexplained`` always by itself and last."""
    small = [line for line in lines if line.share < _LEAST_SHARE and line.family != UNEXPLAINED]
    if len(small) <= 1:
        return [_figures(line) for line in lines]
    joined = [
        f"{len(small)} smaller causes",
        notation.duration(sum(line.lost_ns for line in small)),
        notation.percent(sum(line.share for line in small)),
        # A spike may hold several of them, so their counts do not add up.
        notation.ABSENT,
        notation.duration(max(line.largest_ns for line in small)),
    ]
    large = [line for line in lines if line not in small and line.family != UNEXPLAINED]
    unexplained = [line for line in lines if line.family == UNEXPLAINED]
    return [*map(_figures, large), joined, *map(_figures, unexplained)]


def _figures(line: CauseLine) -> list[str]:
    return [
        line.label,
        notation.duration(line.lost_ns),
        notation.percent(line.share),
        notation.count(line.spikes),
        notation.duration(line.largest_ns),
    ]


def _quality(cell: TracedCell) -> list[str]:
    """Say how far the table can be trusted: the time line's error bound, lost events, what tracing did without."""
    error_ns = max(facts.error_ns for facts in cell.facts)
    lost = sum(lost for facts in cell.facts for _, _, lost in facts.events)
    methods = "; ".join(dict.fromkeys(facts.time_line for facts in cell.facts))
    words = [f"one time line ({methods}): error at most {_bound(error_ns)}"]
    words[0] += f"; {notation.count(lost)} events lost" if lost else "; no event lost"
    words += dict.fromkeys(f"without: {step}" for facts in cell.facts for step in facts.steps)
    return words + list(dict.fromkeys(facts.agreement for facts in cell.facts if facts.agreement))


def _overheads(lines: Sequence[OverheadLine]) -> Table:
    table = new_table()
    table.add_column("cell")
    for heading in ("pairs", "floor", "p99.9", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        shifts = [_shift(shift, line.pairs) for shift in (line.floor, line.p999, line.maximum)]
        table.add_row(line.cell, str(line.pairs), *(Text(text) for text in shifts))
    return table


def _shift(shift: Shift, pairs: int) -> str:
    """Write the median of the pairs, and below it the least and the largest if there are several."""
    words = signed_duration(shift.median_ns)
    if pairs == 1:
        return words
    return f"{words}\n{signed_duration(shift.low_ns)} ..\n{signed_duration(shift.high_ns)}"
