"""What the study answers of a run: how many times as long the work takes, and what most of the lost time is."""

from collections.abc import Sequence

from stealtime.report import notation
from stealtime.report.answer import LINES_MAX, Answer, Quotes, bare_ratio, times
from stealtime.report.answer_trust import beside_native, doubts, more_repetitions, remedy, why_nothing
from stealtime.report.summary import RunSummary
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import Stretch, StretchCell

STUDY = "stretch"
_OF_A_KIND = 2


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the machine whose work is stretched most against native; else against itself alone."""
    cells = summary.cells_of(StretchCell)
    valid = [cell for cell in cells if cell.valid and cell.repetitions]
    held = sorted(filter(_against, valid), key=_ratio, reverse=True)
    if not valid:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    if not held and len(valid) < len(cells):
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    if not held:
        why = "the same work was not measured natively and alone" if len(valid) > 1 else "one machine was measured"
        return Answer.not_judged(STUDY, [why], beside_native(summary, valid[0].platform))
    quotes, worst = Quotes(), held[0]
    sentence = f"{_stretched(quotes, worst)}{_lost(quotes, worst)}"
    lines = [
        *wording.priority_sentences(valid)[:_OF_A_KIND],
        *wording.one_more_sentences([worst]),
        *_provisioned(worst),
    ]
    lines += [_stretched(quotes, cell) for cell in held[1 : 1 + max(0, LINES_MAX - len(lines))]]
    because = _because(worst)
    reasons = [*doubts(summary, _quoted(worst, valid), cells), *because]
    hint = more_repetitions(summary) if reasons == because else remedy(summary, cells)
    return Answer.of(STUDY, sentence, quotes=quotes, because=reasons, hint=hint, lines=lines)


def _against(cell: StretchCell) -> Stretch | None:
    for one in (cell.against_native, cell.against_alone):
        if one is not None and one.ratio is not None:
            return one
    return None


def _ratio(cell: StretchCell) -> float:
    one = _against(cell)
    return 0.0 if one is None or one.ratio is None else one.ratio


def _quoted(worst: StretchCell, cells: Sequence[StretchCell]) -> list[StretchCell]:
    against = _against(worst)
    return [cell for cell in cells if cell is worst or (against is not None and cell.title == against.base)]


def _stretched(quotes: Quotes, cell: StretchCell) -> str:
    """Say how many times as long the work takes; where the interval holds 1, that no difference is shown."""
    one = _against(cell)
    assert one is not None and one.ratio is not None  # noqa: S101, PT018 - the others were left out
    name = "against_native" if one is cell.against_native else "against_alone"
    words = times(one.ratio)
    if one.low is not None and one.high is not None:
        span = f"({bare_ratio(one.low)} to {bare_ratio(one.high)})"
        quotes.figure(cell, f"{name}.ratio", one.ratio, words, one.low, one.high)
    else:
        span = "(no interval)"
        quotes.figure(cell, f"{name}.ratio", one.ratio, words)
    beside = wording.beside_words(cell)
    where = _place(cell.title) if beside == "nothing" else f"{_place(cell.title)}, beside {beside}"
    is_shown = one.low is None or one.high is None or not one.low <= 1.0 <= one.high
    verdict = "" if is_shown else ", so no stretch is shown"
    return f"{where}: the same work takes {words} as long {span} as {_place(one.base)}{verdict}"


def _place(title: str) -> str:
    """Write platform and scenario so that the latter is seen to be a name: ``native alone``, ``uml in quota``."""
    platform, _, scenario = title.partition(" ")
    return title if scenario == "alone" else f"{platform} in {scenario}"


def _lost(quotes: Quotes, cell: StretchCell) -> str:
    """Say what most of the lost seconds are; nothing where none were lost, or nobody knows."""
    lost = cell.lost
    if lost is None or (largest := lost.largest_part) is None:
        return ""
    words = notation.percent(lost.parts_s[largest] / lost.lost_s)
    quotes.figure(cell, f"lost_percent.{largest}", 100.0 * lost.parts_s[largest] / lost.lost_s, words)
    return f"; {words} of the lost seconds are {PARTS[largest]}"


def _because(cell: StretchCell) -> list[str]:
    one = _against(cell)
    if one is None or one.low is not None:
        return []
    return [one.because or "its ratio has no interval"]


def _provisioned(cell: StretchCell) -> list[str]:
    return [
        f"provisioning of the {one.subject} meanwhile: {one.verdict}, by {one.evidence[0]}"
        for one in cell.provisioning
        if one.rule is not None and one.evidence
    ]
