"""What is printed of stretch: where there are several kinds of work, the tables of each."""

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import with_circumstances
from stealtime.report.terminal.short import overview
from stealtime.report.words_table import printed
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.rows import Told, Work, short_table, works_of


def tables(summary: RunSummary) -> RenderableType:
    cells = summary.cells_of(StretchCell)
    return with_circumstances(Group(*map(_of_work, works_of(cells))), summary, cells)


def overview_of(summary: RunSummary) -> RenderableType:
    cells = summary.cells_of(StretchCell)
    works = works_of(cells)
    others = sum(bool(told.table.rows) for work in works for told in _told(work)[1:])
    return overview([short_table(work) for work in works], others, cells)


def _told(work: Work) -> tuple[Told, ...]:
    return (work.stretch, work.guests, work.lost, work.predictions, work.provisioning)


def _of_work(work: Work) -> RenderableType:
    parts: list[RenderableType] = []
    for told in _told(work):
        if told.is_shown:
            heading: list[RenderableType] = [printed(told.table)] if told.table.rows else [Text(told.table.title)]
            parts += [*heading, *map(Text, told.sentences), Text()]
    return Group(*parts)
