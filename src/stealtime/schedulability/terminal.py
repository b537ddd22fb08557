"""Documents as text: a table and a few sentences for each CPU, and a curve as a table."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.report.plain_table import new_table
from stealtime.schedulability.document import (
    AnalysisDocument,
    CpuDocument,
    CurveDocument,
    CurveShare,
    TaskDocument,
    Verdict,
)
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
            yield _table(cpu, document.policy == "edf")
            for line in _lines(cpu, document):
                yield Text(line)
            yield Text()


def _because(cpu: CpuDocument) -> str:
    return f", because {cpu.because}" if cpu.because is not None else ""


def _table(cpu: CpuDocument, edf: bool) -> Table:
    table = new_table()
    table.add_column("task")
    columns = ["cost", "period", "deadline"] if edf else ["cost", "period", "deadline", "response", "slack"]
    for name in columns:
        table.add_column(name, justify="right")
    if not edf:
        table.add_column("")
    for task in cpu.tasks:
        row = [task.name, *map(format_duration, (task.cost_ns, task.period_ns, task.deadline_ns))]
        table.add_row(*(row if edf else [*row, *_response(task)]))
    return table


def _response(task: TaskDocument) -> tuple[str, str, str]:
    mark = "" if task.verdict == "meets its deadline" else str(task.verdict)
    if task.response_ns is None:
        return f"> {format_duration(task.at_least_ns or 0)}", "-", mark
    slack = task.deadline_ns - task.response_ns
    return format_duration(task.response_ns), ("-" if slack < 0 else "") + format_duration(abs(slack)), mark


def _lines(cpu: CpuDocument, document: AnalysisDocument) -> Iterator[str]:
    yield f"utilization of the tasks: {cpu.utilization_percent:.1f} %"
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
        yield f"overhead {name}: {format_duration(one.overhead_ns)}; without it {factor}{dominates}"
    if document.budget_period_ns is not None:
        period = format_duration(document.budget_period_ns)
        if cpu.least_budget_ns is not None:
            share = cpu.least_budget_ns / document.budget_period_ns * 100
            budget = format_duration(cpu.least_budget_ns)
            yield f"smallest budget of a periodic resource of {period}: {budget} ({share:.1f} %)"
        elif cpu.margin_because is None:
            yield f"smallest budget of a periodic resource of {period}: the whole CPU is not enough"


class CurvePage:
    """Renders the document of ``stealtime sched curve``."""

    def __init__(self, document: CurveDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text(
            f"{document.sets} sets of each utilization: {document.law}, periods {document.periods}, deadlines "
            f"{document.deadlines}, seed {document.seed}; schedulable sets in percent, with the "
            f"{document.confidence_percent:g} % interval\n",
            style="dim",
        )
        letters = [chr(ord("A") + number) for number in range(len(document.conditions))]
        for letter, name, weighted in zip(letters, document.conditions, document.weighted, strict=True):
            shown = "not judged" if weighted.schedulability is None else f"{weighted.schedulability:.3f}"
            yield Text(f"{letter}: {name}; weighted schedulability {shown}")
        yield Text()
        table = new_table()
        table.add_column("utilization", justify="right")
        for letter in letters:
            table.add_column(letter, justify="right")
        for point in document.points:
            table.add_row(f"{point.utilization:.2f}", *map(_share, point.conditions))
        yield table


def _share(one: CurveShare) -> str:
    if one.schedulable_share is None or one.low is None or one.high is None:
        return "not judged"
    unjudged = f", {one.not_judged} not judged" if one.not_judged else ""
    return f"{100 * one.schedulable_share:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f}){unjudged}"
