"""Tables of stretch, of lost seconds and of predictions: the rows of the terminal and of the page."""

from collections.abc import Sequence
from statistics import median
from textwrap import fill

from stealtime.report import notation
from stealtime.report.plain_table import TableOfWords
from stealtime.studies.stretch.analysis.lost import PARTS, shown_parts
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.wording import GUEST_PARTS, against_words, guest_rows, part_words, spread_words

_NAMED = "platform, scenario"
_HEAD_WIDTH = 14


def guests_table(cells: Sequence[StretchCell]) -> TableOfWords:
    """Compare the guests that did the same work together; no row where there are none."""
    rows = [
        (
            "" if number else cell.title,
            row.name,
            notation.duration(median(row.guest.elapsed_s) * 1e9),
            against_words(row.guest.against_native),
            against_words(row.guest.against_alone),
            *(part_words(row.guest, part) for part in GUEST_PARTS),
            "" if number else spread_words(cell),
        )
        for cell in cells
        for number, row in enumerate(guest_rows(cell) if cell.alike else [])
    ]
    heads = ("guest", "elapsed", "against native", "against itself alone", *GUEST_PARTS.values(), "fastest to slowest")
    title = "Each of the guests that did the same work together"
    return TableOfWords(title, (_NAMED, *heads), rows, named=2, whole=(0,))


def lost_table(cells: Sequence[StretchCell]) -> TableOfWords:
    """Split what the work took longer than natively; no row where nothing was measured natively."""
    shown = shown_parts(cells)
    rows = []
    for cell in cells:
        if (one := cell.lost) is not None:
            values = [one.lost_s, *(one.parts_s.get(name) for name in shown), one.unexplained_s]
            words = (notation.ABSENT if value is None else f"{value:.3f} s" for value in values)
            rows.append((cell.title, *words))
    heads = (_NAMED, "longer by", *(fill(PARTS[name], _HEAD_WIDTH) for name in shown), "unexplained")
    return TableOfWords("Where the seconds went that it takes longer than natively", heads, rows, whole=(0,))


def prediction_table(cells: Sequence[StretchCell]) -> TableOfWords:
    """Put predictions beside what was measured; no row where no machine was measured alone and beside others."""
    rows = [
        (
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
        for cell in cells
        if (one := cell.predicted) is not None and (alone := cell.against_alone) is not None
    ]
    models = ("shared", "residual", "entitled", "closed N v/m", "utilization", "all busy", "1/(1-rho^m)", "M/M/m")
    title = "Stretch against itself alone, measured and predicted"
    return TableOfWords(title, (_NAMED, "measured", *models), rows, whole=(0,))
