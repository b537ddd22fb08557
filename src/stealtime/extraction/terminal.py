"""Documents as text: a table of tasks, and what is to be known of them."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from stealtime.extraction.document import ExtractDocument, TaskDocument, VerifyDocument
from stealtime.report import notation
from stealtime.report.plain_table import new_table
from stealtime.schedulability.document import Verdict
from stealtime.schedulability.wording import duration

_STYLES: dict[Verdict, str] = {"schedulable": "green", "not schedulable": "bold red", "not judged": "magenta"}
_KINDS = {"programmed": "", "observed": " observed", "sporadic": " sporadic", "too few": ""}


class ExtractPage:
    """Renders the document of ``stealtime sched extract``."""

    def __init__(self, document: ExtractDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        head = f"{document.program} on {document.machine}, watched for {document.watched_ns / 1e9:.1f} s, "
        yield Text(f"{head}{document.events:,} events, {document.lost_events:,} lost")
        yield Text(f"what the host took: {document.host}\n", style="dim")
        table = new_table()
        table.add_column("task")
        table.add_column("policy")
        for name in ("CPU", "period", "jitter", "late by", "cost", "with calls", "waits", "response", "jobs"):
            table.add_column(name, justify="right")
        for task in document.tasks:
            table.add_row(*_row(task))
        yield table
        for task in document.tasks:
            for note in task.notes:
                yield Text(f"{task.name}: {note}")
            if task.excluded is not None:
                yield Text(f"{task.name}: not in the task file: {task.excluded}")
            if task.host is not None and task.host.jobs:
                yield Text(
                    f"{task.name}: the host may have taken some of {task.host.jobs} jobs, of one "
                    f"{notation.duration(task.host.taken_ns)} for sure; without it the longest of these took "
                    f"{notation.duration(task.host.own_ns)}"
                )
        if document.quiet_threads:
            yield Text(f"began no job: {', '.join(document.quiet_threads)}")
        yield from (Text(f"note: {note}") for note in document.notes)


class VerifyPage:
    """Renders the document of ``stealtime sched verify``."""

    def __init__(self, document: VerifyDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text.assemble((document.verdict, _STYLES[document.verdict]), f": {document.summary}\n")
        yield from (Text(f"note: {note}") for note in document.notes)
        yield Text()
        yield ExtractPage(document.extracted)


def _row(task: TaskDocument) -> tuple[str, ...]:
    arrival = task.arrival
    policy = task.policy.removeprefix("SCHED_")
    period = "-" if arrival.period_ns is None else f"{_period(arrival.period_ns)}{_KINDS[arrival.kind]}"
    return (
        task.name,
        policy if task.priority is None else f"{policy} {task.priority}",
        ",".join(map(str, task.cpus)) or "-",
        period,
        _short(arrival.jitter_ns),
        "-" if task.lateness_ns is None else _short(task.lateness_ns),
        _short(task.cost.own_ns),
        _short(task.cost.with_calls_ns),
        _short(task.suspended_ns) if task.suspending else "-",
        _short(task.response_ns),
        str(task.cost.jobs),
    )


def _period(period_ns: int) -> str:
    return duration(period_ns)


def _short(time_ns: int) -> str:
    return notation.duration(time_ns).replace(" ", "")
