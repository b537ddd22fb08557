"""The answers of a run, before everything else that is printed of it."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from stealtime.report.answer import Answer
from stealtime.report.summary import RunSummary


def print_answers(summary: RunSummary, console: Console) -> None:
    """Print the sentence of each study, and below it its lines."""
    for answer in summary.answers:
        console.print(Text(answer.told, style="bold" if answer.trusted else "bold yellow"))
        for line in lines_below(answer):
            console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
        console.print()


def lines_below(answer: Answer) -> list[str]:
    """Give what stands below the sentence: first what to do, where it is not to be trusted."""
    return [*([] if answer.hint is None else [f"hint: {answer.hint}"]), *answer.lines]
