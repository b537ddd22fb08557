"""Missed deadlines and latencies, platforms beside each other."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report.plain_table import printed
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.rows import tables_of
from stealtime.studies.realtime.wording import NOTES, invalid_sentences


def render(cells: Sequence[RealTimeCell]) -> RenderableType:
    """Give the tables of all cells of a run."""
    shared, tables = tables_of(cells)
    head = [] if shared is None else [Text(shared, style="bold"), Text()]
    return Group(*head, *printed(tables), *map(Text, (*NOTES, *invalid_sentences(cells))), Text())
