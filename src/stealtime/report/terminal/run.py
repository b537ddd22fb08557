"""What ``run`` and ``show`` print of a run: of each study what it has to say."""

from rich.console import Console, RenderableType
from rich.text import Text

from stealtime.report.circumstances.strangers import TITLE, stranger_lines, strangers_in_short
from stealtime.report.studies import studies
from stealtime.report.study import ReportedStudy
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.paper_tables import tables_of_run
from stealtime.store.run import Run


def claims_of(summary: RunSummary, *, wanted: bool | None) -> list[RenderableType]:
    """Give the cells beside what others claim of them, where that was asked for; None leaves it to each study."""
    claims = [tables_of_run(summary, study.name, wanted=wanted) for study in _studies_of(summary)]
    return [one for one in claims if one is not None]


def print_tables(summary: RunSummary, console: Console, *, everything: bool = True) -> None:
    """Print the tables of each study.

    Args:
        summary: The figures of the run.
        console: Where to.
        everything: Every figure, and all that is to be known of how it was measured; else what a screen has room for.
    """
    for study in _studies_of(summary):
        console.print(study.tables(summary) if everything else study.overview(summary))
    if not everything:
        for line in strangers_in_short(summary):
            console.print(Text(line, style="yellow"))
        return
    if lines := stranger_lines(summary):
        console.print(Text(f"\n{TITLE}", style="bold yellow"))
        for line in lines:
            console.print(Text(f"  {line}", style="yellow"))


def print_explanations(run: Run, console: Console) -> None:
    for study in studies():
        if (explanation := study.explanation(run.only([probe.name for probe in study.probes]))) is not None:
            console.print(explanation)


def _studies_of(summary: RunSummary) -> list[ReportedStudy]:
    """Give the studies whose cells were measured; all of them for a run without a cell."""
    names = {cell.study for cell in summary.cells}
    return [study for study in studies() if study.name in names or not names]
