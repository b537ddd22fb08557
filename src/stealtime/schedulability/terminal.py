"""Documents as text: a table and a few sentences for each CPU, and a curve as a table."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.report.plain_table import new_table
from stealtime.schedulability import wording
from stealtime.schedulability.document import (
    AllowedDocument,
    AnalysisDocument,
    CpuDocument,
    CurveDocument,
    TaskDocument,
    Verdict,
)
from stealtime.schedulability.supply import DEDICATED
from stealtime.schedulability.uncharged import not_charged_lines
from stealtime.vocabulary.quantities import format_duration

_STYLES: dict[Verdict, str] = {"schedulable": "green", "not schedulable": "bold red", "not judged": "magenta"}


class AnalysisPage:
    """Renders the document of ``stealtime sched analyze``."""

    def __init__(self, document: AnalysisDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text(f"{document.bound}; on {document.supply}; overheads: {document.overheads}\n", style="dim")
        for cpu in document.cpus:
            yield Text.assemble((f"CPU {cpu.cpu}", "bold"), ": ", (cpu.verdict, _STYLES[cpu.verdict]), _because(cpu))
            yield _table(cpu, any(task.verdict is not None for task in cpu.tasks))
            for line in _lines(cpu, document):
                yield Text(line)
            if cpu.allowed:
                yield Text()
                yield _allowed_table(cpu.allowed, document.budget_period_ns)
                yield from map(Text, wording.allowed_notes(cpu.allowed))
            yield Text()
        yield from map(Text, document.remarks)
        yield from map(Text, not_charged_lines(document.not_charged))


def _because(cpu: CpuDocument) -> str:
    return f", because {cpu.because}" if cpu.because is not None else ""


def _table(cpu: CpuDocument, has_responses: bool) -> Table:
    table = new_table()
    table.add_column("task")
    columns = ["cost", "period", "deadline", *(["response", "slack"] if has_responses else [])]
    for name in columns:
        table.add_column(name, justify="right")
    if has_responses:
        table.add_column("")
    for task in cpu.tasks:
        row = [task.name, *map(format_duration, (task.cost_ns, task.period_ns, task.deadline_ns))]
        table.add_row(*([*row, *_response(task)] if has_responses else row))
    return table


def _response(task: TaskDocument) -> tuple[str, str, str]:
    mark = "" if task.verdict == "meets its deadline" else str(task.verdict)
    if task.response_ns is None:
        return f"> {wording.duration(task.at_least_ns or 0)}", "-", mark
    slack = task.deadline_ns - task.response_ns
    return wording.duration(task.response_ns), ("-" if slack < 0 else "") + wording.duration(abs(slack)), mark


def _lines(cpu: CpuDocument, document: AnalysisDocument) -> Iterator[str]:
    yield f"utilization of the tasks: {cpu.utilization_percent:.1f} %"
    if document.policy == "edf":
        yield from _demand(cpu, document)
    if cpu.margin_because is not None:
        yield f"margin: not judged, because {cpu.margin_because}"
    elif cpu.cost_factor is None:
        yield "margin: none; the overheads or the supply alone rule it out, however small the costs are"
    else:
        percent = (cpu.cost_factor - 1) * 100
        word = f"may grow by {percent:.1f} %" if percent >= 0 else f"must shrink by {-percent:.1f} %"
        yield f"margin: all costs {word} (factor {cpu.cost_factor:.4f})"
    for one in cpu.overheads:
        name = one.overhead.replace("_", " ")
        factor = "no margin even" if one.cost_factor_without is None else f"factor {one.cost_factor_without:.4f}"
        dominates = "; it dominates" if one.overhead == cpu.dominant_overhead else ""
        yield f"overhead {name}: {wording.duration(one.overhead_ns)}; without it {factor}{dominates}"
    if document.budget_period_ns is not None:
        period = format_duration(document.budget_period_ns)
        if cpu.least_budget_ns is not None:
            share = cpu.least_budget_ns / document.budget_period_ns * 100
            budget = wording.duration(cpu.least_budget_ns)
            yield f"smallest budget of a periodic resource of {period}: {budget} ({share:.1f} %)"
        elif cpu.margin_because is None:
            yield f"smallest budget of a periodic resource of {period}: the whole CPU is not enough"


def _allowed_table(allowed: Sequence[AllowedDocument], budget_period_ns: int | None) -> Table:
    table = new_table("Where a share of the jobs may miss: empirical, not proven")
    for name in ("misses allowed", "overheads", "gaps left out", "verdict", "factor of all costs"):
        table.add_column(name)
    if budget_period_ns is not None:
        table.add_column(f"smallest budget of {format_duration(budget_period_ns)}", justify="right")
    for one in allowed:
        left_out = "-" if one.gaps_left_out is None else str(one.gaps_left_out)
        factor = "-" if one.cost_factor is None else f"{one.cost_factor:.4f}"
        row = [f"{one.misses_percent:g} %", one.overheads, left_out, one.verdict, factor]
        if budget_period_ns is not None:
            row.append("-" if one.least_budget_ns is None else wording.duration(one.least_budget_ns))
        table.add_row(*row)
    return table


def _demand(cpu: CpuDocument, document: AnalysisDocument) -> Iterator[str]:
    one = cpu.demand
    if one is not None:
        window, demand, service = map(wording.duration, (one.window_ns, one.demand_ns, one.service_ns))
        which = "tightest window" if one.slack_ns >= 0 else "first window that is exceeded"
        slack = ("-" if one.slack_ns < 0 else "") + wording.duration(abs(one.slack_ns))
        yield f"{which}: {window}, in which {demand} is due and {service} is certain: slack {slack}"
    elif cpu.demand_because is not None:
        yield f"tightest window: not found, because {cpu.demand_because}"
    if document.supply != DEDICATED.text:
        yield "responses: under EDF they are bounded on a dedicated CPU alone"


class CurvePage:
    """Renders the document of ``stealtime sched curve``."""

    def __init__(self, document: CurveDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text(wording.answer(document), style="bold")
        yield Text(
            f"{wording.conditions_words(document)} Schedulable sets in percent, with the "
            f"{document.confidence_percent:g} % interval.\n",
            style="dim",
        )
        letters = [chr(ord("A") + number) for number in range(len(document.conditions))]
        for letter, weighted in zip(letters, document.weighted, strict=True):
            shown = "not judged" if weighted.schedulability is None else f"{weighted.schedulability:.3f}"
            costs = "" if weighted is document.weighted[0] else f"; costs {wording.cost_words(weighted)}"
            yield Text(f"{letter}: {weighted.condition}; weighted schedulability {shown}{costs}")
        yield Text()
        table = new_table()
        table.add_column("utilization", justify="right")
        for letter in letters:
            table.add_column(letter, justify="right")
        for point in document.points:
            table.add_row(f"{point.utilization:.2f}", *map(wording.share_words, point.conditions))
        yield table
        yield from map(Text, document.remarks)
