"""Whose fault the lost time is, as ``show`` prints it: a small table for each traced cell."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.report.terminal.moment import render_moments
from stealtime.store.run import Run
from stealtime.studies.latency.attribution.cells import CauseLine, Causes, TracedCell, gather_causes
from stealtime.studies.latency.attribution.families import UNEXPLAINED
from stealtime.studies.latency.attribution.model import Shift, TracingOverhead
from stealtime.studies.latency.attribution.moment import moment_of
from stealtime.studies.latency.wording.cause_wording import held_back_alone, signed_duration

_LEAST_SHARE = 0.01
"""Causes below it share a line, so that a cell takes no more than a few."""


def explanation(run: Run) -> RenderableType | None:
    """Attribute the traced trials, which takes a second or two each."""
    causes = render_causes(gather_causes(run))
    moments = [moment for trial in run.measured if (moment := moment_of(trial)) is not None]
    told = [*([render_moments(moments)] if moments else []), *([] if causes is None else [causes])]
    return Group(*told) if told else None


def render_causes(causes: Causes) -> RenderableType | None:
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
    if not cell.attributed:
        return [Text(title, style="bold"), *refused]
    table = new_table(title)
    table.add_column("cause", no_wrap=True)
    for heading in ("lost", "share", "spikes", "largest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows(cell):
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


def _rows(cell: TracedCell) -> list[list[str]]:
    """Give the causes that matter, the small ones added up, ``unexplained`` always by itself and last."""
    small = cell.folded(_LEAST_SHARE)
    if not small:
        return [_figures(line) for line in cell.lines]
    joined = [
        f"{len(small)} smaller causes",
        notation.duration(sum(line.lost_ns for line in small)),
        notation.percent(sum(line.share for line in small)),
        # A spike may hold several of them, so their counts do not add up.
        notation.ABSENT,
        notation.duration(max(line.largest_ns for line in small)),
    ]
    large = [line for line in cell.lines if line not in small and line.family != UNEXPLAINED]
    unexplained = [line for line in cell.lines if line.family == UNEXPLAINED]
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
    told = [one.told for one in cell.attributed]
    error_ns = max(one.time_line.error_ns for one in told)
    lost = sum(lost for one in cell.attributed for _, _, lost in one.events)
    methods = "; ".join(dict.fromkeys(one.time_line.method for one in told))
    words = [f"one time line ({methods}): error at most {_bound(error_ns)}"]
    words[0] += f"; {notation.count(lost)} events lost" if lost else "; no event lost"
    words += dict.fromkeys(f"without: {step}" for one in told for step in one.trace.steps)
    return words + list(dict.fromkeys(one.views.agreement for one in told if one.views.agreement))


def _overheads(costs: Sequence[TracingOverhead]) -> Table:
    table = new_table()
    table.add_column("cell")
    for heading in ("pairs", "floor", "p99.9", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in costs:
        shifts = (_shift(shift, one.pairs) for shift in (one.floor_shift_ns, one.p999_shift_ns, one.max_shift_ns))
        table.add_row(one.cell, str(one.pairs), *map(Text, shifts))
    return table


def _shift(shift: Shift, pairs: int) -> str:
    """Write the median of the pairs, and below it the least and the largest if there are several."""
    words = signed_duration(shift.median_ns)
    if pairs == 1:
        return words
    return f"{words}\n{signed_duration(shift.min_ns)} ..\n{signed_duration(shift.max_ns)}"
