"""The same questions where a small share of the jobs may miss: from what a run observed, and proven for none of them.

For the overheads, instead of the worst, the percentile that so few samples exceed. For a supply that was observed, the
longest gaps are left out, as many as so few windows meet that are as long as the longest deadline. Both are shares of
what was seen. A job is charged several overheads, and jobs that follow a gap share its harm, so that the share of jobs
that miss may be larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from stealtime.schedulability.analysis import analyze, judge
from stealtime.schedulability.document import AllowedDocument, AnalysisDocument
from stealtime.schedulability.margins import factor_of, least_budget_of, margin_of
from stealtime.schedulability.measured import MeasuredCondition, Statistic, overhead_models
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.starts import NOT_ANALYSED, has_starts
from stealtime.schedulability.supply import without_rarest_gaps
from stealtime.schedulability.task_file import TaskFile
from stealtime.vocabulary.errors import UsageError

STATISTICS: dict[Fraction, Statistic] = {
    Fraction(0): "worst",
    Fraction(1, 1_000): "p99.9",
    Fraction(1, 100): "p99",
}
"""By the share of jobs that may miss."""


@dataclass(frozen=True)
class Allowance:
    """A share of misses, and the overheads that go with it."""

    share: Fraction
    """Of the jobs that may miss."""
    overheads_are: str
    """Which statistic of a run's samples, or that they do not depend on the share."""
    overheads: OverheadModel | None
    because: str | None = None
    """Why there are no overheads."""


def constant_allowances(model: OverheadModel) -> tuple[Allowance, ...]:
    """Give all shares with overheads that no run measured: only the supply depends on the share then."""
    return tuple(Allowance(share, "as given", model) for share in STATISTICS)


def measured_allowances(source: str, conditions: Sequence[MeasuredCondition]) -> dict[str, tuple[Allowance, ...]]:
    """Give all shares with the overheads of a run, by machine."""
    found: dict[str, list[Allowance]] = {one.machine: [] for one in conditions}
    for share, statistic in STATISTICS.items():
        models: dict[str, OverheadModel] = {}
        because = None
        try:
            models = overhead_models(source, conditions, statistic)
        except UsageError as error:
            because = error.message
        for machine, allowances in found.items():
            allowances.append(Allowance(share, statistic, models.get(machine), because))
    return {machine: tuple(allowances) for machine, allowances in found.items()}


def analyze_allowing(file: TaskFile, source: str, terms: Terms, allowances: Sequence[Allowance]) -> AnalysisDocument:
    """Analyse as :func:`analyze` does, and each CPU also with each share of misses allowed.

    Args:
        file: The tasks.
        source: Its name.
        terms: Policy, overheads and supply of the analysis itself; the tick's period counts for all.
        allowances: With their overheads; none adds nothing.
    """
    document = analyze(file, source, terms)
    cpus = tuple(
        cpu.model_copy(update={"allowed": tuple(_allowed(file, cpu.cpu, terms, one) for one in allowances)})
        for cpu in document.cpus
    )
    return document.model_copy(update={"cpus": cpus})


def _allowed(file: TaskFile, cpu: int, terms: Terms, allowance: Allowance) -> AllowedDocument:
    percent = float(100 * allowance.share)
    if allowance.overheads is None or has_starts(file):
        return AllowedDocument(
            misses_percent=percent,
            overheads=allowance.overheads_are,
            gaps_left_out=None,
            verdict="not judged",
            because=allowance.because if allowance.overheads is None else NOT_ANALYSED,
            cost_factor=None,
            least_budget_ns=None,
        )
    longest_ns = max(task.deadline_ns for task in file.on(cpu))
    supply, left_out = without_rarest_gaps(terms.supply, allowance.share, longest_ns)
    model = replace(allowance.overheads, tick_period_ns=terms.overheads.tick_period_ns)
    under = replace(terms, overheads=model, supply=supply)
    tasks = file.ordered_for(cpu, terms.policy)
    question = question_of(tasks, under, model.at(len(file.tasks)))
    judged = judge(tasks, question, terms.policy)
    because, factor, budget = judged.because, None, None
    try:
        factor, _ = margin_of(tasks, question)
        if terms.budget_period_ns is not None:
            budget = least_budget_of(tasks, question, terms.budget_period_ns)
    except ValueError as error:
        because = because or str(error)
    return AllowedDocument(
        misses_percent=percent,
        overheads=allowance.overheads_are,
        gaps_left_out=left_out,
        verdict=judged.verdict,
        because=because,
        cost_factor=factor_of(factor),
        least_budget_ns=budget,
    )
