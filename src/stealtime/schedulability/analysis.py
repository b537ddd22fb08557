"""From a task file to the document: each CPU is one question to the analysis."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from stealtime import _core
from stealtime.schedulability import wording
from stealtime.schedulability.blocking import levels_of_windows
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
from stealtime.schedulability.overhead_remarks import remarks_at
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.reservation import ROOT_DOMAIN, Charged, Reservation
from stealtime.schedulability.starts import Starts, find_starts, has_starts
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.schedulability.uncharged import Circumstances, not_charged
from stealtime.vocabulary.errors import ExitCode, UsageError
from stealtime.vocabulary.quantities import format_duration

if TYPE_CHECKING:
    from stealtime._core import QuestionDict

Found = TypeVar("Found")

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
    starts = find_starts(file, terms, overheads) if has_starts(file) else None
    charged = {one.what: one for cpu in file.cpus() for one in charged_sources(terms, file.on(cpu))}
    cpus = tuple(_cpu(file, cpu, terms, overheads, starts) for cpu in file.cpus())
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


STARTED = "tasks start each other, on all CPUs together"


@dataclass(frozen=True)
class Judged:
    """The answer for one CPU, without margins."""

    verdict: Verdict
    because: str | None
    tasks: tuple[TaskDocument, ...]
    demand: DemandDocument | None = None
    demand_because: str | None = None


def _cpu(file: TaskFile, cpu: int, terms: Terms, overheads: dict[str, int], starts: Starts | None) -> CpuDocument:
    tasks = file.ordered_for(cpu, terms.policy)
    question = question_of(tasks, terms, overheads)
    judged = judge(tasks, question, terms.policy) if starts is None else _started(tasks, starts)
    reasons: list[str] = []

    def known(compute: Callable[[], Found]) -> Found | None:
        if starts is not None:
            reasons.append(STARTED)
            return None
        try:
            return compute()
        except ValueError as error:
            reasons.append(str(error))
            return None

    margin, is_largest = known(lambda: margin_of(tasks, question)) or (None, True)
    influences = known(lambda: influences_of(tasks, question)) or []
    period_ns = terms.budget_period_ns
    # The supply that was given does not count: another one is sought.
    budget = None if period_ns is None else known(lambda: least_budget_of(tasks, question, period_ns))
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
        cost_factor_is_lower_bound=not is_largest,
        overheads=tuple(
            InfluenceDocument(overhead=name, overhead_ns=ns, cost_factor_without=factor_of(without))
            for name, ns, without in influences
        ),
        dominant_overhead=dominant,
        least_budget_ns=budget,
        margin_because=reasons[0] if reasons else None,
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


def levels_in(tasks: list[TaskTable], question: "QuestionDict") -> list[tuple[int, int]]:
    """Give the blocking by length of the window of a question under EDF; none where no resource is shared."""
    return levels_of_windows(tasks, dict(question["overheads"])) if question["policy"] == "edf" else []


def margin_of(tasks: list[TaskTable], question: "QuestionDict") -> tuple[int | None, bool]:
    """Find the largest factor of all costs in millionths, None for not even 0, and whether a larger one surely fails.

    Raises:
        ValueError: It is not judged; the message says why.
    """
    _refuse_reservations(tasks)
    levels = levels_in(tasks, question)
    return _core.blocked_cost_margin(question, levels) if levels else _core.cost_margin_and_edge(question)


def influences_of(tasks: list[TaskTable], question: "QuestionDict") -> list[tuple[str, int, int | None]]:
    """Give each overhead that is not 0: its name, its ns, and the margin if it alone were 0.

    Raises:
        ValueError: As :func:`margin_of`.
    """
    _refuse_reservations(tasks)
    if not levels_in(tasks, question):
        return _core.overhead_influences(question)
    present = [(name, ns) for name, ns in question["overheads"] if ns > 0]
    found = []
    for name, ns in present:
        without: QuestionDict = {**question, "overheads": [one for one in present if one[0] != name]}
        found.append((name, ns, margin_of(tasks, without)[0]))
    return found


def least_budget_of(tasks: list[TaskTable], question: "QuestionDict", period_ns: int) -> int | None:
    """Find the smallest budget in ns of a periodic resource; None: the whole CPU is not enough.

    Raises:
        ValueError: As :func:`margin_of`.
    """
    _refuse_reservations(tasks)
    if levels_in(tasks, question):
        raise ValueError("with blocking under EDF the smallest budget is not searched for")
    return _core.least_budget(question, period_ns)


def _refuse_reservations(tasks: list[TaskTable]) -> None:
    if any(task.reservation is not None for task in tasks):
        raise ValueError("reservations do not grow with the costs")


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


def factor_of(millionths: int | None) -> float | None:
    return None if millionths is None else millionths / _core.PARTS_PER_MILLION
