"""The findings as a table: grouped, problems in colour, each with its fix below; then what this user may not do."""

from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.doctor.document import DoctorDocument, Summary
from stealtime.doctor.model import Finding, Level
from stealtime.doctor.rights import Right

_STYLES = {Level.OK: "green", Level.LIMITS: "yellow", Level.BLOCKS: "bold red"}


class FindingsTable:
    """Prints itself on a rich console."""

    def __init__(self, document: DoctorDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one heading and one table for each group, the user's rights if one is missing, then the verdict."""
        for group, findings in groupby(self._document.findings, key=lambda finding: finding.group):
            yield Text(group.value, style="bold")
            yield Padding(_group_table(list(findings)), (0, 0, 1, 2))
        if not all(right.works for right in self._document.rights):
            yield Text("what this user may do", style="bold")
            yield Padding(_rights_table(self._document.rights), (0, 0, 1, 2))
        yield _verdict(self._document.summary)


def _group_table(findings: list[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    told: set[str] = set()
    for finding in findings:
        style = _STYLES[finding.level]
        # Platforms of one accelerator fail for one reason; it fills three lines.
        explanation = Text("same as above") if finding.text in told else _explanation(finding)
        table.add_row(Text(finding.level.value, style=style), Text(finding.title), explanation)
        if finding.level is not Level.OK:
            told.add(finding.text)
    return table


def _rights_table(rights: list[Right]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(overflow="fold", ratio=2)
    for right in rights:
        because = Text(right.because)
        if right.fix is not None:
            because.append("\nfix: ", style="bold").append(right.fix)
        table.add_row(
            Text("works", style="green") if right.works else Text("does not", style="yellow"),
            Text(right.task),
            because,
        )
    return table


def _explanation(finding: Finding) -> Text:
    text = Text(finding.text)
    if finding.level is not Level.OK:
        text.append(f"\n{finding.why}", style="dim")
        if finding.fix is not None:
            text.append("\nfix: ", style="bold")
            text.append(finding.fix)
    return text


def _verdict(summary: Summary) -> Text:
    counts = f"{summary.ok} ok, {summary.limits} limit results, {summary.blocks} block"
    if summary.can_do_main_job:
        return Text.assemble(("This machine can be measured against its virtual machines: ", "bold"), counts)
    return Text.assemble(("This machine cannot be measured against its virtual machines: ", "bold red"), counts)
