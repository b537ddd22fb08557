"""Stretch with its intervals, where the seconds went, and what was predicted."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, TableOfWords, new_table, printed
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.rows import guests_table, lost_table, prediction_table
from stealtime.studies.stretch.terminal.provisioning import provisioning_table
from stealtime.studies.stretch.wording import (
    EACH_NOTE,
    absent_sentences,
    against_words,
    bases_sentence,
    beside_words,
    exits_sentences,
    guest_words,
    invalid_sentences,
    not_judged_sentences,
    one_more_sentences,
    priority_sentences,
    work_words,
)


def render(cells: Sequence[StretchCell]) -> RenderableType:
    """Give the tables of all cells of a run; a title for each kind of work where there are several."""
    works = dict.fromkeys(map(work_words, cells))
    return Group(*(_of_work(work, [cell for cell in cells if work_words(cell) == work]) for work in works))


def _of_work(work: str, cells: Sequence[StretchCell]) -> RenderableType:
    sentences = [bases_sentence(cells), *not_judged_sentences(cells), *invalid_sentences(cells)]
    parts: list[RenderableType] = [_stretch_table(work, cells), Text("\n".join(one for one in sentences if one))]
    parts += _told(guests_table(cells), [EACH_NOTE, *priority_sentences(cells)])
    parts += _told(lost_table(cells), [*exits_sentences(cells), *absent_sentences(cells)])
    parts += _told(prediction_table(cells), one_more_sentences(cells))
    if any(cell.provisioning for cell in cells):
        parts += [Text(), provisioning_table(cells)]
    return Group(*parts, Text())


def _told(table: TableOfWords, sentences: Sequence[str]) -> list[RenderableType]:
    """Give a table that has rows, and what is said below it."""
    return [Text(), *printed([table])[:1], *map(Text, sentences)] if table.rows else []


def _stretch_table(work: str, cells: Sequence[StretchCell]) -> Table:
    table = new_table(f"Stretch: how many times as long the same work takes ({work})")
    for name in ("platform", "scenario", "machine", "beside it"):
        table.add_column(name)
    for name in ("n", "elapsed", "against native", "against itself alone"):
        table.add_column(name, justify="right")
    for cell in cells:
        mark = "" if cell.valid else f" {INVALID_MARK}"
        table.add_row(
            cell.platform + mark,
            cell.scenario,
            guest_words(cell),
            beside_words(cell),
            str(len(cell.repetitions)),
            notation.duration(median(cell.elapsed_s) * 1e9) if cell.repetitions else notation.ABSENT,
            against_words(cell.against_native) + (" (not alone)" if cell.company and cell.against_native else ""),
            against_words(cell.against_alone),
        )
    return table
