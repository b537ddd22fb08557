"""What the study answers of a run: what one sample in a thousand takes longer than it must, against native."""

from collections.abc import Sequence

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.answer import LINES_MAX, Answer, Quotes, bare_ratio, times
from stealtime.report.answer_trust import beside_native, doubts, more_repetitions, remedy, why_nothing
from stealtime.report.cells.model import plain_cells
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.report.summary import RunSummary
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import why_no_interval
from stealtime.studies.latency.rows import Column, Row, columns_of

STUDY = "latency"
_NATIVE_MISSING = "native was not measured, or is not valid"


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the probe in which a virtual machine loses most at the 99.9th percentile; else with native itself."""
    cells = summary.cells_of(CellSummary)
    columns = columns_of(plain_cells(cells))
    rows = [(column, row) for column in columns for row in column.rows.values() if row.cell.valid and row.cell.stats]
    if not rows:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    guests = [one for one in rows if not traits_of(one[1].cell.platform).is_native]
    quotes = Quotes()
    ranked = sorted(guests or rows, key=_leading, reverse=True)
    column, row = ranked[0]
    several = len({one.first.scenario for one in columns}) > 1
    reasons, hint = _speaking_against(summary, row, cells, is_guest=bool(guests))
    longest = max(guests or rows, key=lambda one: one[1].cell.worst_overhead_ns or 0.0)
    lines = [_longest(quotes, *longest)]
    probes = {column.first.probe}
    for other, its in ranked[1:]:
        if other.first.probe not in probes and len(lines) < LINES_MAX:
            probes.add(other.first.probe)
            if its is longest[1] and its.tail_ns is None:
                # Of it there is nothing else to say.
                continue
            lines.append(f"{_lost(quotes, other, its, several=several)}{_beside_strangers(its)}")
    sentence = _lost(quotes, column, row, several=several)
    return Answer.of(STUDY, sentence, quotes=quotes, because=reasons, hint=hint, lines=lines)


def _leading(one: tuple[Column, Row]) -> tuple[bool, bool, float]:
    """Give what decides which row is told: one with a ratio, then one with a percentile, then what it loses."""
    row = one[1]
    lost_ns = row.tail_ns if row.tail_ns is not None else row.cell.worst_overhead_ns
    return row.tail_ratio is not None, row.tail_ns is not None, lost_ns or 0.0


def _lost(quotes: Quotes, column: Column, row: Row, *, several: bool) -> str:
    """Say what a cell loses, and how many times that of native it is."""
    where = f"{column.title} in {row.cell.scenario}" if several else column.title
    if row.tail_ns is None:
        longest = _worst(quotes, row.cell)
        return f"{row.cell.platform} lost at most {longest} of {where}{_native_worst(quotes, row)}"
    sentence = f"{row.cell.platform} loses {_tail(quotes, row)} at the 99.9th percentile of {where}"
    if row.native is None:
        return sentence
    own = Row(row.native, None)
    if own.tail_ns is None:
        return f"{sentence}, native more than its samples can resolve"
    sentence += f", native {_tail(quotes, own)}"
    if (ratio := row.tail_ratio) is None:
        return sentence
    words = times(ratio.value)
    quotes.figure(row.cell, "tail_ratio", ratio.value, words, ratio.low, ratio.high)
    shown = ", so no difference is shown" if ratio.low <= 1.0 <= ratio.high else ""
    return f"{sentence}: {words} as much ({bare_ratio(ratio.low)} to {bare_ratio(ratio.high)}){shown}"


def _beside_strangers(row: Row) -> str:
    """Mark a line below the sentence: that the sentence may be trusted says nothing of other cells."""
    cells = [row.cell, *([] if row.native is None else [row.native])]
    return " (not alone)" if any(cell.not_alone is not None for cell in cells) else ""


def _tail(quotes: Quotes, row: Row) -> str:
    tail, tail_ns = row.tail, row.tail_ns
    assert tail_ns is not None  # noqa: S101 - else the longest is told
    words = notation.duration(tail_ns, 3)
    if tail is None:
        return f"{quotes.figure(row.cell, 'tail_overhead_ns', tail_ns, words)} (no interval)"
    quotes.figure(row.cell, "tail_overhead_ns", tail_ns, words, tail.low, tail.high)
    return f"{words} ({notation.duration(tail.low, 2)} to {notation.duration(tail.high, 2)})"


def _worst(quotes: Quotes, cell: CellSummary) -> str:
    worst_ns = cell.worst_overhead_ns
    if worst_ns is None:
        return "what a limit of the kernel explains"
    return quotes.figure(cell, "worst_overhead_ns", worst_ns, notation.duration(worst_ns, 3))


def _native_worst(quotes: Quotes, row: Row) -> str:
    return "" if row.native is None else f", native at most {_worst(quotes, row.native)}"


def _longest(quotes: Quotes, column: Column, row: Row) -> str:
    """Name the longest of all: a single event."""
    where = f"{row.cell.platform} {_worst(quotes, row.cell)} of {column.title}{_native_worst(quotes, row)}"
    where += _beside_strangers(row)
    return f"the longest seen: {where}; single events show what can happen, not how often"


def _speaking_against(
    summary: RunSummary, row: Row, cells: Sequence[CellSummary], *, is_guest: bool
) -> tuple[list[str], str]:
    """Give why the sentence may not be trusted, and what to do."""
    quoted = [row.cell, *([] if row.native is None else [row.native])]
    reasons = doubts(summary, quoted, cells)
    hint = remedy(summary, cells)
    if is_guest and row.native is None:
        reasons.append(_NATIVE_MISSING)
        hint = beside_native(summary, row.cell.platform)
    for cell in quoted:
        if (reason := why_no_interval(cell)) is not None:
            words = _in_words(reason)
            if not reasons:
                hint = (
                    more_repetitions(summary) if _too_few(cell) else f"measure longer: -D, or {REPETITIONS_MIN} times"
                )
            if words not in reasons:
                reasons.append(words)
    return reasons, hint


def _too_few(cell: CellSummary) -> bool:
    return sum(trial.valid for trial in cell.trials) < REPETITIONS_MIN


def _in_words(reason: str) -> str:
    """Give a reason without what to do about it, which is the hint."""
    return f"there is no interval: {reason.partition(': ')[0]}"
