"""What is printed of the cells of a study that declares its figures."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.rows import remarks_of, tables_of
from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.words_table import printed_each


def report_of(study: ShownStudy, cells: Sequence[CatalogueCell]) -> RenderableType:
    conclusions = study.conclusions(cells)
    lines = [*conclusions, *([""] if conclusions else []), *remarks_of(study, cells)]
    return Group(*printed_each(tables_of(study, cells)), *map(Text, lines))
