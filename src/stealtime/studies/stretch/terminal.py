"""What is printed of stretch: where there are several kinds of work, the tables of each."""

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import with_circumstances
from stealtime.report.words_table import printed
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.rows import Work, works_of


def tables(summary: RunSummary) -> RenderableType:
    cells = summary.cells_of(StretchCell)
    return with_circumstances(Group(*map(_of_work, works_of(cells))), summary, cells)


def _of_work(work: Work) -> RenderableType:
    parts: list[RenderableType] = []
    for told in (work.stretch, work.guests, work.lost, work.predictions, work.provisioning):
        if told.is_shown:
            heading: list[RenderableType] = [printed(told.table)] if told.table.rows else [Text(told.table.title)]
            parts += [*heading, *map(Text, told.sentences), Text()]
    return Group(*parts)
