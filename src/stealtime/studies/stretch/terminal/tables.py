"""Stretch with its intervals, where the seconds went, and what was predicted."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, new_table
from stealtime.studies.stretch.analysis.lost import PARTS, shown_parts
from stealtime.studies.stretch.analysis.model import Stretch, StretchCell
from stealtime.studies.stretch.terminal.provisioning import provisioning_table
from stealtime.studies.stretch.wording import (
    EACH_NOTE,
    GUEST_PARTS,
    absent_sentences,
    bases_sentence,
    beside_words,
    exits_sentences,
    guest_rows,
    guest_words,
    invalid_sentences,
    not_judged_sentences,
    one_more_sentences,
    part_words,
    priority_sentences,
    spread_words,
    stretch_words,
    work_words,
)


def render(cells: Sequence[StretchCell]) -> RenderableType:
    """Give the tables of all cells of a run; a title for each kind of work where there are several."""
    works = dict.fromkeys(map(work_words, cells))
    return Group(*(_of_work(work, [cell for cell in cells if work_words(cell) == work]) for work in works))


def _of_work(work: str, cells: Sequence[StretchCell]) -> RenderableType:
    parts: list[RenderableType] = [_stretch_table(work, cells)]
    sentences = [bases_sentence(cells), *not_judged_sentences(cells), *invalid_sentences(cells)]
    parts.append(Text("\n".join(one for one in sentences if one)))
    if any(cell.alike for cell in cells):
        parts += [Text(), _guests_table(cells), *map(Text, [EACH_NOTE, *priority_sentences(cells)])]
    if any(cell.lost is not None for cell in cells):
        parts += [Text(), _lost_table(cells)]
        parts += [Text(sentence) for sentence in (*exits_sentences(cells), *absent_sentences(cells))]
    if any(_is_predicted(cell) for cell in cells):
        parts += [Text(), _prediction_table(cells)]
        parts += [Text(sentence) for sentence in one_more_sentences(cells)]
    if any(cell.provisioning for cell in cells):
        parts += [Text(), provisioning_table(cells)]
    return Group(*parts, Text())


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
            _against(cell.against_native) + (" (not alone)" if cell.company and cell.against_native else ""),
            _against(cell.against_alone),
        )
    return table


def _guests_table(cells: Sequence[StretchCell]) -> Table:
    table = new_table("Each of the guests that did the same work together")
    table.add_column("platform, scenario", no_wrap=True)
    table.add_column("guest")
    for name in ("elapsed", "against native", "against itself alone", *GUEST_PARTS.values(), "fastest to slowest"):
        table.add_column(name, justify="right")
    for cell in cells:
        for number, row in enumerate(guest_rows(cell) if cell.alike else []):
            table.add_row(
                "" if number else cell.title,
                row.name,
                notation.duration(median(row.guest.elapsed_s) * 1e9),
                _against(row.guest.against_native),
                _against(row.guest.against_alone),
                *(part_words(row.guest, part) for part in GUEST_PARTS),
                "" if number else spread_words(cell),
            )
    return table


def _against(one: Stretch | None) -> str:
    return notation.ABSENT if one is None else stretch_words(one)


def _lost_table(cells: Sequence[StretchCell]) -> Table:
    lost = [(cell, cell.lost) for cell in cells if cell.lost is not None]
    shown = shown_parts(cells)
    table = new_table("Where the seconds went that it takes longer than natively")
    table.add_column("platform, scenario", no_wrap=True)
    table.add_column("longer by", justify="right")
    for name in (*(PARTS[name] for name in shown), "unexplained"):
        table.add_column(name, justify="right", max_width=14)
    for cell, one in lost:
        values = [one.lost_s, *(one.parts_s.get(name) for name in shown), one.unexplained_s]
        table.add_row(cell.title, *(notation.ABSENT if value is None else f"{value:.3f} s" for value in values))
    return table


def _is_predicted(cell: StretchCell) -> bool:
    return cell.predicted is not None and cell.against_alone is not None


def _prediction_table(cells: Sequence[StretchCell]) -> Table:
    table = new_table("Stretch against itself alone, measured and predicted")
    table.add_column("platform, scenario", no_wrap=True)
    table.add_column("measured", justify="right")
    for name in ("shared", "residual", "entitled", "closed N v/m", "utilization", "all busy", "1/(1-rho^m)", "M/M/m"):
        table.add_column(name, justify="right")
    for cell in cells:
        one, alone = cell.predicted, cell.against_alone
        if one is None or alone is None:
            continue
        table.add_row(
            cell.title,
            notation.ratio(alone.ratio),
            notation.ratio(one.shared),
            notation.ABSENT if one.residual is None else f"{100 * one.residual:+.1f} %",
            notation.ratio(one.entitled),
            notation.ratio(one.closed),
            notation.percent(one.utilization),
            notation.percent(one.all_busy),
            notation.ratio(one.open_queue),
            notation.ratio(one.erlang_c),
        )
    return table
