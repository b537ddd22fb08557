"""What is printed of the cells of a study that declares its figures."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.rows import remarks_of, tables_of
from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.plain_table import printed
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import circumstances, limits


def report_of(study: ShownStudy, summary: RunSummary, cells: Sequence[CatalogueCell]) -> RenderableType:
    """Give tables, conclusions, how to read them, the circumstances, and what limits the results.

    Args:
        study: Of whose cells.
        summary: Of the whole run.
        cells: Its own of that.
    """
    conclusions = study.conclusions(cells)
    lines = [*conclusions, *([""] if conclusions else []), *remarks_of(study, cells)]
    part = summary.model_copy(update={"cells": cells})
    return Group(*printed(tables_of(study, cells)), *map(Text, lines), *circumstances(part), *limits(cells))
