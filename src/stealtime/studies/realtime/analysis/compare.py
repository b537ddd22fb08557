"""A cell of two runs: whether jobs began later, took longer, or missed more deadlines."""

from stealtime.report import notation
from stealtime.report.catalogue.comparison import compare_repetitions, too_few
from stealtime.report.catalogue.model import Figure
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.rates import Counts, judge_rates, method_of_rates
from stealtime.studies.realtime.analysis.model import RealTimeCell

_COMPARED = {
    "urgent_latency_p50_ns": Figure(
        "urgent latency p50", lambda one: None if one.urgent_latency_ns is None else one.urgent_latency_ns.p50
    ),
    "urgent_latency_p99_ns": Figure(
        "urgent latency p99", lambda one: None if one.urgent_latency_ns is None else one.urgent_latency_ns.p99
    ),
    "response_max_of_deadline": Figure(
        "response max of deadline",
        lambda one: None if one.response_share is None else one.response_share.max,
        write=notation.percent,
    ),
}
"""Taken from repetitions."""


class MissedComparison(StatisticComparison):
    """The share of jobs that missed their deadline."""

    a_share: float | None
    b_share: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        a, b = (notation.ABSENT if one is None else notation.percent(one) for one in (self.a_share, self.b_share))
        return "missed deadlines", a, b


def compare_cells(a: RealTimeCell, b: RealTimeCell) -> CellComparison:
    """Compare a cell that two runs have in common; ratios are of ``b`` to ``a``."""
    because = None
    if _work(a) != _work(b):
        because = "the tasks or their work differ: measure the second run with --loop-of the first"
    statistics = [*compare_repetitions(_COMPARED, a.repetitions, b.repetitions, because), _missed(a, b, because)]
    return CellComparison.of(a, (len(a.repetitions), len(b.repetitions)), statistics)


def _work(cell: RealTimeCell) -> list[list[tuple[int, int, int]]]:
    """Give what all tasks had to do, but for a difference of calibration that is none of theirs."""
    return [[(task.period_ns, task.deadline_ns, task.iterations) for task in one.tasks] for one in cell.repetitions]


def _missed(a: RealTimeCell, b: RealTimeCell, because: str | None) -> MissedComparison:
    first, second = (
        Counts(
            [one.missed for one in cell.repetitions if one.released],
            [one.released for one in cell.repetitions if one.released],
        )
        for cell in (a, b)
    )
    because = too_few(len(a.repetitions), len(b.repetitions)) or because
    ratio, method = None, None
    if because is None and not (first.events and second.events):
        because = "in one run no job was released"
    if because is None:
        ratio, because = judge_rates(first, second)
        method = method_of_rates(first, second, "missed deadlines")
    shares = [None if cell.missed_share is None else cell.missed_share.share for cell in (a, b)]
    return MissedComparison(
        statistic="missed_share", a_share=shares[0], b_share=shares[1], **judged(ratio, because, method)
    )
