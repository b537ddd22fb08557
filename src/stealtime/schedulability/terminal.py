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
    PlacementDocument,
    TaskDocument,
    Verdict,
)
from stealtime.schedulability.interference import interference_lines
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
        if document.format != "toml":
            yield Text(f"{document.file} is read as {document.format}.")
        yield from (Text(f"note: {remark}") for remark in document.remarks)
        if document.format != "toml" or document.remarks:
            yield Text()
        for cpu in document.cpus:
            yield Text.assemble((f"CPU {cpu.cpu}", "bold"), ": ", (cpu.verdict, _STYLES[cpu.verdict]), _because(cpu))
            yield from _assignment(cpu)
            yield _table(cpu, any(task.verdict is not None for task in cpu.tasks))
            if document.has_room:
                yield Text()
                yield from _rooms(cpu)
            for line in _lines(cpu, document):
                yield Text(line)
            if cpu.allowed:
                yield Text()
                yield _allowed_table(cpu.allowed, document.budget_period_ns)
                yield from map(Text, wording.allowed_notes(cpu.allowed))
            yield Text()
        if document.chains:
            yield _chain_table(document)
        yield from map(Text, interference_lines(document.interference))
        yield from map(Text, not_charged_lines(document.not_charged))


def _because(cpu: CpuDocument) -> str:
    return f", because {cpu.because}" if cpu.because is not None else ""


def _table(cpu: CpuDocument, has_responses: bool) -> Table:
    table = new_table()
    table.add_column("task")
    columns = [*_priority_column(cpu), "cost", "period", "deadline", *(["response", "slack"] if has_responses else [])]
    for name in columns:
        table.add_column(name, justify="right")
    if has_responses:
        table.add_column("")
    for task in cpu.tasks:
        own = ["-" if task.priority is None else str(task.priority)] if _priority_column(cpu) else []
        name = task.name if task.reservation is None else f"{task.name} (SCHED_DEADLINE {task.reservation})"
        row = [name, *own, *map(format_duration, (task.cost_ns, task.period_ns, task.deadline_ns))]
        table.add_row(*([*row, *_response(task)] if has_responses else row))
    return table


def _priority_column(cpu: CpuDocument) -> list[str]:
    return [] if cpu.assignment is None else ["priority"]


def _assignment(cpu: CpuDocument) -> Iterator[Text]:
    if cpu.assignment is not None:
        found = "priorities were assigned with which all deadlines are met" if cpu.assignment.found else None
        yield Text(found or f"no order of priorities meets all deadlines: {cpu.assignment.because}")


def _rooms(cpu: CpuDocument) -> Iterator[Table | Text]:
    """What each task may be alone, all others unchanged; what is negative must shrink."""
    table = new_table("One task at a time, all others unchanged")
    table.add_column("task")
    for name in ("may cost", "more", "may come every", "shorter"):
        table.add_column(name, justify="right")
    for task in cpu.tasks:
        cost, period = task.longest_cost_ns, task.shortest_period_ns
        row = [task.name, "-", "-", "-", "-"]
        if cost is not None:
            row[1:3] = [wording.duration(cost), _signed(cost - task.cost_ns, task.cost_ns)]
        if period is not None:
            row[3:5] = [wording.duration(period), _signed(task.period_ns - period, task.period_ns)]
        table.add_row(*row)
    yield table
    if any(task.longest_cost_ns is None and task.room_because is None for task in cpu.tasks):
        yield Text("-: no change of this task alone makes the set schedulable")
    for task in cpu.tasks:
        if task.room_because is not None:
            yield Text(f"{task.name}: not judged, because {task.room_because}")


def _signed(more_ns: int, of_ns: int) -> str:
    return f"{100 * more_ns / of_ns:+.1f} %"


def _response(task: TaskDocument) -> tuple[str, str, str]:
    mark = "" if task.verdict == "meets its deadline" else str(task.verdict)
    if task.unbounded:
        return "unbounded", "-", mark
    if task.response_ns is None:
        return f"> {wording.duration(task.at_least_ns)}" if task.at_least_ns else "-", "-", mark
    slack = task.deadline_ns - task.response_ns
    return wording.duration(task.response_ns), ("-" if slack < 0 else "") + wording.duration(abs(slack)), mark


def _lines(cpu: CpuDocument, document: AnalysisDocument) -> Iterator[str]:
    yield f"utilization of the tasks: {cpu.utilization_percent:.1f} %"
    if document.policy == "edf":
        yield from _demand(cpu)
    if cpu.margin_because is not None:
        yield f"margin: not judged, because {cpu.margin_because}"
    elif cpu.cost_factor is None:
        yield "margin: none; the overheads or the supply alone rule it out, however small the costs are"
    else:
        percent = (cpu.cost_factor - 1) * 100
        word = f"may grow by {percent:.1f} %" if percent >= 0 else f"must shrink by {-percent:.1f} %"
        more = "; of larger factors it is not known" if cpu.cost_factor_is_lower_bound else ""
        where = " of all CPUs" if cpu.margin_is_of_all_cpus else ""
        yield f"margin: all costs{where} {word} (factor {cpu.cost_factor:.4f}){more}"
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


def _demand(cpu: CpuDocument) -> Iterator[str]:
    one = cpu.demand
    if one is not None:
        window, demand, service = map(wording.duration, (one.window_ns, one.demand_ns, one.service_ns))
        which = "tightest window" if one.slack_ns >= 0 else "first window that is exceeded"
        slack = ("-" if one.slack_ns < 0 else "") + wording.duration(abs(one.slack_ns))
        yield f"{which}: {window}, in which {demand} is due and {service} is certain: slack {slack}"
    elif cpu.demand_because is not None:
        yield f"tightest window: not found, because {cpu.demand_because}"


def _chain_table(document: AnalysisDocument) -> Table:
    table = new_table()
    table.add_column("chain")
    for name in ("data age", "allowed", "reaction", "allowed"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in document.chains:
        times = (one.age_ns, one.max_age_ns, one.reaction_ns, one.max_reaction_ns)
        shown = ["-" if time is None else wording.duration(time) for time in times]
        table.add_row(f"{one.name}: {' > '.join(one.tasks)}", *shown, one.because or "")
    return table


class PlacementPage:
    """Renders the document of ``stealtime sched place``."""

    def __init__(self, document: PlacementDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        words = {"schedulable": "placed", "not schedulable": "no placement", "not judged": "not judged"}
        because = "" if document.because is None else f", because {document.because}"
        by = "" if document.found_by is None else f" by {document.found_by}"
        yield Text.assemble((words[document.verdict], _STYLES[document.verdict]), f"{by}{because}")
        yield Text(f"{document.policy}; overheads: {document.overheads}; {document.analyses} analyses\n", style="dim")
        yield from (Text(f"note: {remark}") for remark in document.remarks)
        if not document.placed:
            return
        table = new_table()
        for name, justify in (
            ("virtual CPU", "left"),
            ("supply", "left"),
            ("utilization", "right"),
            ("margin", "right"),
        ):
            table.add_column(name, justify="right" if justify == "right" else "left")
        table.add_column("tasks")
        for one in document.placed:
            if one.cpu is None:
                table.add_row(one.name, one.supply, "0.0 %", "-", "none")
                continue
            margin = "-" if one.cpu.cost_factor is None else f"factor {one.cpu.cost_factor:.4f}"
            names = ", ".join(task.name for task in one.cpu.tasks)
            table.add_row(one.name, one.supply, f"{one.cpu.utilization_percent:.1f} %", margin, names)
        yield table


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
