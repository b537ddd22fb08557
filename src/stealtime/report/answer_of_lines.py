"""The answer of a study that has no sentence of its own."""

from collections.abc import Sequence

from stealtime.report.answer import Answer, Quotes
from stealtime.report.answer_trust import doubts, named, remedy, why_nothing
from stealtime.report.cells.model import CellFigures
from stealtime.report.summary import RunSummary


def answer_of_lines(study: str, summary: RunSummary, cells: Sequence[CellFigures]) -> Answer:
    """Answer with what each valid cell is told by where there is no table: the first in the sentence, then the others.

    Args:
        study: Its name.
        summary: Of the run.
        cells: Those of the study, at least one.
    """
    valid = [cell for cell in cells if cell.valid and cell.lines]
    if not valid:
        return Answer.not_judged(study, *why_nothing(summary, cells))
    first, *others = (f"{named(cell)}: {', '.join(cell.lines)}" for cell in valid)
    reasons = doubts(summary, valid, cells)
    return Answer.of(study, first, quotes=Quotes(), because=reasons, hint=remedy(summary, cells), lines=others)
