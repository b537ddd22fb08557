"""What the study answers of a run: how many times as long an emulated device takes as a paravirtual one, and where."""

from collections.abc import Sequence

from stealtime._core import REQUEST_PARTS
from stealtime.lab.platforms.traits import traits_of
from stealtime.report.answer import Answer, Quotes
from stealtime.report.answer_trust import why_nothing
from stealtime.report.catalogue.answer import answered, figure_words, ratio_words
from stealtime.report.summary import RunSummary
from stealtime.studies.devices.catalogue import part_figure
from stealtime.studies.devices.figures import DeviceFigures
from stealtime.studies.devices.rows import pairs, short_words
from stealtime.studies.devices.wording import PART_WORDS

STUDY = "devices"
_MOST_LINES = 5


def answer_of(summary: RunSummary) -> Answer:
    """Answer with emulated devices against the paravirtual ones beside them, then with each cell's largest part."""
    cells = summary.cells_of(DeviceFigures)
    valid = [cell for cell in cells if cell.valid and cell.figures]
    if not valid:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    quotes = Quotes()
    both = pairs(valid)
    told = [_compared(quotes, base, cell) for base, cell in both]
    quoted: Sequence[DeviceFigures] = both[0] if both else valid[:1]
    in_pairs = {cell.key for pair in both for cell in pair}
    beside = [cell for cell in valid if cell.key not in in_pairs]
    told += [_one(quotes, cell) for cell in beside]
    figures = [cell.figure("p50_ns") for cell in quoted]
    return answered(STUDY, summary, told[: _MOST_LINES + 1], quotes=quotes, cells=(quoted, cells), figures=figures)


def _compared(quotes: Quotes, base: DeviceFigures, cell: DeviceFigures) -> str:
    ratio = ratio_words(quotes, base, cell, "p50_ns")
    told = (
        f"{_where(cell)}: {short_words(cell)} takes {figure_words(quotes, cell, 'p50_ns')}, {short_words(base)} "
        f"{figure_words(quotes, base, 'p50_ns')}"
    )
    return f"{told}{'' if ratio is None else f': {ratio}'}{_largest(quotes, cell)}"


def _one(quotes: Quotes, cell: DeviceFigures) -> str:
    return f"{_where(cell)}: {short_words(cell)} takes {figure_words(quotes, cell, 'p50_ns')}{_largest(quotes, cell)}"


def _where(cell: DeviceFigures) -> str:
    return f"{cell.platform}, {cell.scenario}"


def _largest(quotes: Quotes, cell: DeviceFigures) -> str:
    """Name the part in which most of the time goes; natively there is but one."""
    parts = {part: value for part in REQUEST_PARTS if (value := cell.figure(part_figure(part)).p50)}
    if traits_of(cell.platform).is_native or not parts:
        return ""
    largest = max(parts, key=lambda part: parts[part])
    words = figure_words(quotes, cell, part_figure(largest), with_interval=False)
    return f"; most of it is {PART_WORDS[largest]}: {words} in the mean"
