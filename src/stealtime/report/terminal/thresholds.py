"""The list of thresholds, before everything else that is printed of a run."""

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report.summary import RunSummary
from stealtime.report.verdict_lines import Verdicts, verdicts_of_gate

_STYLES = {"pass": "green", "fail": "bold red", "not judged": "yellow"}


def print_thresholds(summary: RunSummary, console: Console) -> None:
    """Print what became of each threshold; nothing where there is none."""
    if summary.gate is not None:
        console.print(thresholds(verdicts_of_gate(summary.gate)))
        console.print()


def thresholds(verdicts: Verdicts) -> RenderableType:
    """Give the list under its title and the worst verdict."""
    title = Text.assemble((f"{verdicts.title}: ", "bold"), (verdicts.verdict, _STYLES[verdicts.outcome]))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for line in verdicts.lines:
        words = f"{line.name}: {line.words}" if line.words else line.name
        table.add_row(Text(f"  {line.outcome}", style=_STYLES[line.outcome]), Text(words))
    return Group(title, table)
