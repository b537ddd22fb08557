"""From a task file to the document: each CPU is one question to the analysis."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

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
from stealtime.schedulability.interference import charged_sources, interference_documents
from stealtime.schedulability.margins import Margins, factor_of, levels_in, margins_of
from stealtime.schedulability.overhead_remarks import remarks_at
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.reservation import ROOT_DOMAIN, Charged, Reservation
from stealtime.schedulability.starts import Starts, find_starts, has_starts
from stealtime.schedulability.starts_margin import margins_together
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.schedulability.uncharged import Circumstances, not_charged
from stealtime.vocabulary.errors import ExitCode, UsageError
from stealtime.vocabulary.quantities import format_duration

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

_BOUNDS: dict[tuple[Policy, Accounting | None], str] = {
    ("fixed-priority", "job"): "response-time analysis with jitter, overheads charged per job (SchedCAT)",
    ("fixed-priority", "stretch"): "response-time analysis with jitter, overheads charged per stretch (PROSA)",
    ("edf", None): "processor demand and responses (Spuri) with interrupts as demand, overheads charged per job",
}
_EXIT_CODES: dict[Verdict, ExitCode] = {
    "schedulable": ExitCode.FINE,
    "not schedulable": ExitCode.THRESHOLD,
    "not judged": ExitCode.NOT_JUDGED,
}


def analyze(file: TaskFile, source: str, terms: Terms) -> AnalysisDocument:
    """Analyse each CPU of a task file.

    Args:
        file: The tasks.
        source: Its name.
        terms: Policy, overheads and supply; the overheads are those of as many tasks as the whole file has.

    Raises:
        UsageError: Under EDF a task has a reservation, or is started by another one.
    """
    refuse_reservations_under_edf(file, terms)
    overheads = terms.overheads.at(len(file.tasks))
    together = None
    if has_starts(file):
        together = find_starts(file, terms, overheads), margins_together(file, terms, overheads)
    charged = {one.what: one for cpu in file.cpus() for one in charged_sources(terms, file.on(cpu))}
    cpus = tuple(_cpu(file, cpu, terms, overheads, together) for cpu in file.cpus())
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
        remarks=(
            *remarks_at(terms.overheads, len(file.tasks)),
            *((ROOT_DOMAIN,) if any(task.reservation is not None for task in file.tasks) else ()),
        ),
        interference=interference_documents(charged.values()),
        not_charged=not_charged(
            terms.overheads,
            Circumstances(terms.interrupts, terms.supply, frozenset(charged)),
        ),
    )


def refuse_reservations_under_edf(file: TaskFile, terms: Terms) -> None:
    """Refuse what has no meaning.

    Raises:
        UsageError: Under EDF a task has a reservation.
    """
    reserved = next((task.name for task in file.tasks if task.reservation is not None), None)
    if terms.policy == "edf" and reserved is not None:
        raise UsageError(
            f"the task {reserved!r} has a reservation, which is above fixed priorities, and the policy is edf",
            hint="analyse it with --policy fixed-priority",
        )


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


def _cpu(
    file: TaskFile, cpu: int, terms: Terms, overheads: dict[str, int], together: tuple[Starts, Margins] | None
) -> CpuDocument:
    tasks = file.ordered_for(cpu, terms.policy)
    if together is None:
        question = question_of(tasks, terms, overheads)
        judged, margins = judge(tasks, question, terms.policy), margins_of(tasks, question, terms.budget_period_ns)
    else:
        judged, margins = _started(tasks, together[0]), together[1]
    return CpuDocument(
        cpu=cpu,
        verdict=judged.verdict,
        because=judged.because,
        utilization_percent=float(100 * sum((task.utilization for task in tasks), Fraction(0))),
        tasks=judged.tasks,
        demand=judged.demand,
        demand_because=judged.demand_because,
        cost_factor=factor_of(margins.millionths),
        cost_factor_is_lower_bound=not margins.is_largest,
        margin_is_of_all_cpus=together is not None,
        overheads=tuple(
            InfluenceDocument(overhead=name, overhead_ns=ns, cost_factor_without=factor_of(without))
            for name, ns, without in margins.influences
        ),
        dominant_overhead=margins.dominant,
        least_budget_ns=margins.least_budget_ns,
        margin_because=margins.because,
    )


def judge(tasks: list[TaskTable], question: "QuestionDict", policy: Policy) -> Judged:
    if policy == "edf":
        return _blocked(tasks, question, _demand(tasks, question))
    servers = [server for task in tasks if (server := task.server) is not None]
    return _reserved(tasks, question, servers) if servers else _responses(tasks, question)


def _reserved(tasks: list[TaskTable], question: "QuestionDict", servers: list[Reservation]) -> Judged:
    """Judge fixed priorities below reservations, and each of these by what its own task needs of it."""
    below = _responses(tasks, question)
    charged = Charged(dict(question["overheads"]), question["tick_period_ns"], question["interrupts"])
    documents = []
    for task, document in zip(tasks, below.tasks, strict=True):
        if (server := task.server) is not None:
            alone: QuestionDict = {
                **question,
                "tasks": [
                    (task.cost, task.period, task.deadline_ns, task.jitter or 0, 0),
                    *charged.releases_of([other for other in tasks if other is not task]),
                ],
                "levels": [],
                "supply": {
                    "kind": "periodic",
                    "parameters": [server.period_ns, server.runtime_ns, server.deadline_ns],
                    "points": [],
                    "parts": [],
                },
            }
            row, *_ = _core.analyze_tasks(alone)["responses"] or []
            if charged.holds_whole_jobs(task, server, tasks):
                at_most = server.deadline_ns + charged.late_ns(task)
                row = (min(at_most, row[0] or at_most), at_most, None)
            documents.append(_task(task, row).model_copy(update={"reservation": task.reservation}))
        else:
            documents.append(document)
    judged = _judged(tuple(documents))
    released = charged.releases_of([task for task in tasks if task.server is None])
    among: QuestionDict = {
        **question,
        "tasks": [*(server.as_demand for server in servers), *released],
        "levels": [],
        "policy": "edf",
    }
    try:
        demand = _core.analyze_tasks(among)
    except ValueError as error:
        return judged if judged.verdict == "not schedulable" else Judged("not judged", str(error), judged.tasks)
    if demand["demand"] != "met":
        return Judged("not schedulable", "the reservations demand more than the CPU supplies", judged.tasks)
    unsure = _unsure_of_wakes(tasks, question)
    return (
        replace(judged, verdict="not judged", because=unsure) if unsure and judged.verdict == "schedulable" else judged
    )


def _unsure_of_wakes(tasks: list[TaskTable], question: "QuestionDict") -> str | None:
    """Say why the demand of whole jobs does not tell that reservations are met; None where it does."""
    pairs = [(task, server) for task in tasks if (server := task.server) is not None]
    charged = Charged(dict(question["overheads"]), question["tick_period_ns"], question["interrupts"])
    waking = next((task.name for task, server in pairs if not charged.holds_whole_jobs(task, server, tasks)), None)
    if waking is None:
        return None
    wakes = f"{waking} may wake within a period of its reservation and then asks for its bandwidth at once"
    if question["supply"]["kind"] != "dedicated" or any(charged.overheads.values()):
        return f"{wakes}, which a share of a CPU or a kernel's overheads may not leave it"
    density = sum((server.density for _, server in pairs), Fraction(0))
    if density <= 1:
        return None
    return f"{wakes}: all reservations together for {float(100 * density):.1f} % of the CPU"


def _blocked(tasks: list[TaskTable], question: "QuestionDict", without: Judged) -> Judged:
    """Judge with blocking what was judged without it; bounds of responses without it are none with it."""
    levels = levels_in(tasks, question)
    if not levels:
        return without
    try:
        rows = _core.blocked_responses(question, levels)
        documents = tuple(_task(task, row) for task, row in zip(tasks, rows, strict=True))
        if without.verdict == "not schedulable":
            return replace(without, tasks=documents)
        found = _core.blocked_window(question, levels)
    except ValueError as error:
        unjudged = tuple(_unjudged(task) for task in tasks)
        if without.verdict == "not schedulable":
            return replace(without, tasks=unjudged)
        return Judged("not judged", str(error), unjudged)
    if found is None:
        because = None if without.demand is None else "blocking counts in windows of its own"
        return replace(without, tasks=documents, demand=None, demand_because=because or without.demand_because)
    window = _window(*found)
    why = (
        f"in a window of {wording.duration(window.window_ns)} jobs and what blocks them, together "
        f"{wording.duration(window.demand_ns)}, are due, and only {wording.duration(window.service_ns)} is certain"
    )
    return Judged("not schedulable", why, documents, window)


def _responses(tasks: list[TaskTable], question: "QuestionDict") -> Judged:
    found = _core.analyze_tasks(question)["responses"] or []
    return _judged(tuple(_task(task, response) for task, response in zip(tasks, found, strict=True)))


def _started(tasks: list[TaskTable], starts: Starts) -> Judged:
    """Judge tasks of which some start others: their responses count from the event that starts the first."""
    documents = [
        _task(task, starts.rows[task.name]).model_copy(
            update={"after": task.after, "executor": task.executor, "ready_ns": starts.ready_ns.get(task.name)}
        )
        for task in tasks
    ]
    return _judged(tuple(documents))


def _judged(documents: tuple[TaskDocument, ...]) -> Judged:
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
        at_least_ns=None if bound is not None or overloaded else at_least,
        unbounded=overloaded,
        verdict=verdict,
        because=because,
    )


def _why_missed(task: TaskDocument) -> str:
    deadline = format_duration(task.deadline_ns)
    if task.unbounded:
        return f"the response of {task.name} is unbounded: {task.because}"
    if task.response_ns is None:
        return f"{task.name} may respond after more than its deadline of {deadline}: {task.because}"
    return f"{task.name} may respond after {wording.duration(task.response_ns)}, its deadline is {deadline}"


def _demand(tasks: list[TaskTable], question: "QuestionDict") -> Judged:
    unjudged = tuple(_unjudged(task) for task in tasks)
    try:
        answer = _core.analyze_tasks(question)
    except ValueError as error:
        return Judged("not judged", str(error), unjudged)
    documents = tuple(_task(task, one) for task, one in zip(tasks, answer["responses"] or [], strict=True))
    window = None if answer["deciding"] is None else _window(*answer["deciding"])
    because = answer["deciding_because"]
    if answer["demand"] == "met":
        return Judged("schedulable", None, documents, window, because)
    if window is None:
        return Judged("not schedulable", "the tasks and overheads demand more than the CPU supplies", documents)
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
