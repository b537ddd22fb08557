"""From a task file to the document: each CPU is one question to the analysis."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeVar

from stealtime import _core
from stealtime.schedulability import wording
from stealtime.schedulability.document import (
    Accounting,
    AnalysisDocument,
    CpuDocument,
    DemandDocument,
    InfluenceDocument,
    Policy,
    TaskDocument,
    TaskVerdict,
    Verdict,
)
from stealtime.schedulability.overhead_remarks import remarks_at
from stealtime.schedulability.overheads import NO_OVERHEADS, OverheadModel
from stealtime.schedulability.supply import DEDICATED, Supply
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.schedulability.uncharged import Circumstances, not_charged
from stealtime.vocabulary.errors import ExitCode
from stealtime.vocabulary.quantities import format_duration

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

Found = TypeVar("Found")
CorePolicy = Literal["fixed-priority by job", "fixed-priority by stretch", "edf"]

_BOUNDS: dict[tuple[Policy, Accounting | None], str] = {
    ("fixed-priority", "job"): "response-time analysis with jitter, overheads charged per job (SchedCAT)",
    ("fixed-priority", "stretch"): "response-time analysis with jitter, overheads charged per stretch (PROSA)",
    ("edf", None): "processor demand and responses (Spuri), overheads charged preemption-centrically (SchedCAT)",
}
_EXIT_CODES: dict[Verdict, ExitCode] = {
    "schedulable": ExitCode.FINE,
    "not schedulable": ExitCode.THRESHOLD,
    "not judged": ExitCode.NOT_JUDGED,
}


@dataclass(frozen=True)
class Terms:
    """Under what a task set is analysed."""

    policy: Policy = "fixed-priority"
    accounting: Accounting = "job"
    """Of fixed priorities alone."""
    overheads: OverheadModel = NO_OVERHEADS
    interrupts: Literal["here", "on another CPU"] = "here"
    supply: Supply = DEDICATED
    budget_period_ns: int | None = None
    """Also find the smallest budget of a periodic resource of this period."""

    @property
    def accounting_used(self) -> Accounting | None:
        return self.accounting if self.policy == "fixed-priority" else None


def analyze(file: TaskFile, source: str, terms: Terms) -> AnalysisDocument:
    """Analyse each CPU of a task file.

    Args:
        file: The tasks.
        source: Its name.
        terms: Policy, overheads and supply; the overheads are those of as many tasks as the whole file has.
    """
    overheads = terms.overheads.at(len(file.tasks))
    cpus = tuple(_cpu(file, cpu, terms, overheads) for cpu in file.cpus())
    return AnalysisDocument(
        file=source,
        policy=terms.policy,
        accounting=terms.accounting_used,
        bound=_BOUNDS[terms.policy, terms.accounting_used],
        supply=terms.supply.text,
        overheads=terms.overheads.source,
        tick_period_ns=terms.overheads.tick_period_ns,
        interrupts=terms.interrupts,
        budget_period_ns=terms.budget_period_ns,
        verdict=_together(cpu.verdict for cpu in cpus),
        cpus=cpus,
        remarks=tuple(remarks_at(terms.overheads, len(file.tasks))),
        not_charged=not_charged(terms.overheads, Circumstances(terms.interrupts, terms.supply)),
    )


def core_policy(policy: Policy, accounting: Accounting) -> CorePolicy:
    if policy == "edf":
        return "edf"
    return "fixed-priority by job" if accounting == "job" else "fixed-priority by stretch"


def exit_code(document: AnalysisDocument) -> ExitCode:
    return _EXIT_CODES[document.verdict]


def _together(verdicts: Iterable[Verdict]) -> Verdict:
    found = set(verdicts)
    worst: tuple[Verdict, ...] = ("not schedulable", "not judged", "schedulable")
    return next(one for one in worst if one in found)


@dataclass(frozen=True)
class Judged:
    """The answer for one CPU, without margins."""

    verdict: Verdict
    because: str | None
    tasks: tuple[TaskDocument, ...]
    demand: DemandDocument | None = None
    demand_because: str | None = None


def _cpu(file: TaskFile, cpu: int, terms: Terms, overheads: dict[str, int]) -> CpuDocument:
    tasks = file.ordered_for(cpu, terms.policy)
    question = question_of(tasks, terms, overheads)
    judged = judge(tasks, question, terms.policy)
    reasons: list[str] = []

    def known(compute: Callable[[], Found]) -> Found | None:
        try:
            return compute()
        except ValueError as error:
            reasons.append(str(error))
            return None

    margin = known(lambda: _core.cost_margin(question))
    influences = known(lambda: _core.overhead_influences(question)) or []
    period_ns = terms.budget_period_ns
    # The supply that was given does not count: another one is sought.
    budget = None if period_ns is None else known(lambda: _core.least_budget(question, period_ns))
    largest = max(influences, key=lambda one: one[2] or 0, default=None)
    dominant = largest[0] if largest is not None and (largest[2] or 0) > (margin or 0) else None
    return CpuDocument(
        cpu=cpu,
        verdict=judged.verdict,
        because=judged.because,
        utilization_percent=float(100 * sum((task.utilization for task in tasks), Fraction(0))),
        tasks=judged.tasks,
        demand=judged.demand,
        demand_because=judged.demand_because,
        cost_factor=factor_of(margin),
        overheads=tuple(
            InfluenceDocument(overhead=name, overhead_ns=ns, cost_factor_without=factor_of(without))
            for name, ns, without in influences
        ),
        dominant_overhead=dominant,
        least_budget_ns=budget,
        margin_because=reasons[0] if reasons else None,
    )


def question_of(tasks: list[TaskTable], terms: Terms, overheads: dict[str, int]) -> "QuestionDict":
    """Put the tasks of a CPU, in their order, as the analysis takes them; overheads in ns."""
    return {
        "tasks": [(task.cost, task.period, task.deadline_ns, task.jitter or 0, task.blocking or 0) for task in tasks],
        "overheads": list(overheads.items()),
        "tick_period_ns": terms.overheads.tick_period_ns,
        "interrupts": terms.interrupts,
        "policy": core_policy(terms.policy, terms.accounting),
        "supply": terms.supply.for_core(),
    }


def judge(tasks: list[TaskTable], question: "QuestionDict", policy: Policy) -> Judged:
    return _demand(tasks, question) if policy == "edf" else _responses(tasks, question)


def _responses(tasks: list[TaskTable], question: "QuestionDict") -> Judged:
    found = _core.analyze_tasks(question)["responses"] or []
    documents = tuple(_task(task, response) for task, response in zip(tasks, found, strict=True))
    missing = next((one for one in documents if one.verdict == "misses its deadline"), None)
    unknown = next((one for one in documents if one.verdict == "not judged"), None)
    if missing is not None:
        return Judged("not schedulable", _why_missed(missing), documents)
    if unknown is not None:
        return Judged("not judged", f"{unknown.name}: {unknown.because}", documents)
    return Judged("schedulable", None, documents)


def _task(task: TaskTable, response: tuple[int | None, int, tuple[bool, str] | None]) -> TaskDocument:
    bound, at_least, reason = response
    overloaded, because = reason or (False, None)
    verdict: TaskVerdict = "not judged"
    if overloaded or at_least > task.deadline_ns:
        verdict = "misses its deadline"
    elif bound is not None:
        verdict = "meets its deadline"
    return TaskDocument(
        name=task.name,
        priority=task.priority,
        cost_ns=task.cost,
        period_ns=task.period,
        deadline_ns=task.deadline_ns,
        jitter_ns=task.jitter or 0,
        response_ns=bound,
        at_least_ns=None if bound is not None else at_least,
        verdict=verdict,
        because=because,
    )


def _why_missed(task: TaskDocument) -> str:
    deadline = format_duration(task.deadline_ns)
    if task.response_ns is None:
        return f"{task.name} may respond after more than its deadline of {deadline}: {task.because}"
    return f"{task.name} may respond after {wording.duration(task.response_ns)}, its deadline is {deadline}"


def _demand(tasks: list[TaskTable], question: "QuestionDict") -> Judged:
    unjudged = tuple(_unjudged(task) for task in tasks)
    try:
        answer = _core.analyze_tasks(question)
    except ValueError as error:
        return Judged("not judged", str(error), unjudged)
    found = answer["responses"]
    documents = unjudged if found is None else tuple(_task(task, one) for task, one in zip(tasks, found, strict=True))
    window = None if answer["deciding"] is None else _window(*answer["deciding"])
    because = answer["deciding_because"]
    if answer["demand"] == "met":
        return Judged("schedulable", None, documents, window, because)
    if window is None:
        return Judged("not schedulable", "the tasks and overheads demand more than the CPU supplies", documents, None)
    why = (
        f"in a window of {wording.duration(window.window_ns)} jobs of {wording.duration(window.demand_ns)} are due, "
        f"and only {wording.duration(window.service_ns)} is certain"
    )
    return Judged("not schedulable", why, documents, window)


def _window(window_ns: int, demand_ns: int, service_ns: int) -> DemandDocument:
    return DemandDocument(
        window_ns=window_ns, demand_ns=demand_ns, service_ns=service_ns, slack_ns=service_ns - demand_ns
    )


def _unjudged(task: TaskTable) -> TaskDocument:
    document = _task(task, (None, 0, None))
    return document.model_copy(update={"at_least_ns": None, "verdict": None})


def factor_of(millionths: int | None) -> float | None:
    return None if millionths is None else millionths / _core.PARTS_PER_MILLION
