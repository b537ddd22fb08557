"""What the study answers of a run: how many deadlines are missed, and how late the most urgent task begins."""

from collections.abc import Sequence

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.answer import LINES_MAX, Answer, Quotes
from stealtime.report.answer_trust import beside_native, doubts, more_repetitions, remedy, why_nothing
from stealtime.report.cells.model import plain_cells
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.report.summary import RunSummary
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.wording import in_common

STUDY = "realtime"


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the virtual machine that misses the largest share of its deadlines; else with native itself."""
    cells = summary.cells_of(RealTimeCell)
    valid = [cell for cell in plain_cells(cells) if cell.valid and cell.released]
    if not valid:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    told = _Told(valid)
    guests = [cell for cell in valid if not traits_of(cell.platform).is_native]
    ranked = sorted(guests or valid, key=_missed, reverse=True)
    worst = ranked[0]
    native = told.native_of(worst)
    quoted = [worst, *([] if native is None else [native])]
    reasons = doubts(summary, quoted, cells)
    hint = remedy(summary, cells)
    if guests and native is None:
        reasons.append("the same tasks were not measured natively, or not validly")
        hint = beside_native(summary, worst.platform)
    few = [len(cell.repetitions) for cell in quoted if len(cell.repetitions) < REPETITIONS_MIN]
    if few:
        hint = hint if reasons else more_repetitions(summary)
        words = "1 repetition of its tasks tells" if min(few) == 1 else f"{min(few)} repetitions of its tasks tell"
        reasons.append(f"{words} no interval")
    lines = [told.latest(worst)] if worst.urgent_latency_ns is not None else []
    lines += [told.missed(cell) for cell in ranked[1:] if cell.missed][: LINES_MAX - len(lines)]
    return Answer.of(STUDY, told.missed(worst), quotes=told.quotes, because=reasons, hint=hint, lines=lines)


def _missed(cell: RealTimeCell) -> tuple[float, float]:
    share = 0.0 if cell.missed_share is None else cell.missed_share.share
    return share, 0.0 if cell.urgent_latency_ns is None else cell.urgent_latency_ns.max


class _Told:
    """Says things of cells, and quotes their figures.

    Attributes:
        quotes: What was quoted.
    """

    def __init__(self, cells: Sequence[RealTimeCell]) -> None:
        self.quotes = Quotes()
        self._cells = cells
        _, sets = in_common(cells)
        self._sets = {id(cell): sets[number] for number, cell in enumerate(cells)}
        self._several = len({cell.scenario for cell in cells}) > 1

    def native_of(self, cell: RealTimeCell) -> RealTimeCell | None:
        """Give the same tasks measured natively; None for itself, and where they were not."""
        alike = [one for one in self._cells if one.key[1:] == cell.key[1:] and one is not cell]
        return next((one for one in alike if traits_of(one.platform).is_native), None)

    def missed(self, cell: RealTimeCell) -> str:
        """Say how many deadlines it missed, beside native."""
        sentence = f"{self._name(cell)} misses {self._share(cell)} of its deadlines ({self._counts(cell)} jobs)"
        native = self.native_of(cell)
        return sentence if native is None else f"{sentence}, native {self._share(native)} ({self._counts(native)})"

    def latest(self, cell: RealTimeCell) -> str:
        """Say how late the most urgent task began, beside native."""
        native = self.native_of(cell)
        words = f"its most urgent task begins up to {self._latency(cell)} late"
        return words if native is None else f"{words}, natively {self._latency(native)}"

    def _name(self, cell: RealTimeCell) -> str:
        words = [self._sets[id(cell)], *([cell.scenario] if self._several else [])]
        told = ", ".join(word for word in words if word)
        return f"{cell.platform} ({told})" if told else cell.platform

    def _share(self, cell: RealTimeCell) -> str:
        share = cell.missed_share
        assert share is not None  # noqa: S101 - of cells with released jobs
        words = notation.percent(share.share)
        self.quotes.figure(cell, "missed_share.share", share.share, words, share.low, share.high)
        if share.low is None or share.high is None:
            return words
        return f"{words} ({notation.percent(share.low)} to {notation.percent(share.high)})"

    def _counts(self, cell: RealTimeCell) -> str:
        missed = self.quotes.figure(cell, "missed", cell.missed, notation.count(cell.missed))
        return f"{missed} of {self.quotes.figure(cell, 'released', cell.released, notation.count(cell.released))}"

    def _latency(self, cell: RealTimeCell) -> str:
        tail = cell.urgent_latency_ns
        if tail is None:
            return notation.ABSENT
        return self.quotes.figure(cell, "urgent_latency_ns.max", tail.max, notation.duration(tail.max))
