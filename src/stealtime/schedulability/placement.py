"""Which task on which virtual CPU: heuristics and a search, each step of which is proved by the analysis.

A task added never makes a set schedulable that was not: so the search leaves every branch whose tasks miss already, and
where it ends without a placement there is none that the analysis accepts. The heuristics take the tasks with the
largest utilization first (D. S. Johnson's first-fit and best-fit decreasing; J. M. Lopez and others, Real-Time
Systems 28, 2004, have what they guarantee).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

from stealtime.schedulability.analysis import analyze, judge, refuse_reservations_under_edf
from stealtime.schedulability.document import PlacedDocument, PlacementDocument, Verdict
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.starts import refuse_starts
from stealtime.schedulability.supply import Supply
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.vocabulary.errors import ExitCode, UsageError

Fit = Literal["first", "best", "worst", "search"]
FITS: tuple[Fit, ...] = get_args(Fit)
_HEURISTICS: tuple[Fit, ...] = ("worst", "first", "best")
"""In the order in which the search tries them: the first leaves the most room everywhere."""
MOST_ANALYSES = 20_000
"""After so many the search gives up: some seconds."""
MOST_CPUS = 1_024


@dataclass(frozen=True)
class VirtualCpu:
    """What tasks may be placed on."""

    name: str
    supply: Supply


@dataclass
class _Room:
    """Tasks of one virtual CPU while they are placed."""

    supply: Supply
    groups: list[tuple[TaskTable, ...]] = field(default_factory=list)

    @property
    def tasks(self) -> list[TaskTable]:
        return [task for group in self.groups for task in group]

    @property
    def utilization(self) -> Fraction:
        return _utilization(self.tasks)


class _OutOfAnalysesError(Exception):
    """The search gives up."""


class _Prover:
    """Asks the analysis, and counts."""

    def __init__(self, terms: Terms, overheads: dict[str, int]) -> None:
        self._terms = terms
        self._overheads = overheads
        self._known: dict[tuple[Supply, frozenset[str]], Verdict] = {}
        self.analyses = 0
        self.unjudged: str | None = None

    def accepts(self, supply: Supply, tasks: Sequence[TaskTable]) -> bool:
        key = (supply, frozenset(task.name for task in tasks))
        if key not in self._known:
            self._known[key] = self._ask(supply, tasks)
        return self._known[key] == "schedulable"

    def _ask(self, supply: Supply, tasks: Sequence[TaskTable]) -> Verdict:
        if _utilization(tasks) > 1:
            return "not schedulable"
        self.analyses += 1
        if self.analyses > MOST_ANALYSES:
            raise _OutOfAnalysesError
        file = TaskFile.model_construct(
            tasks=[task.model_copy(update={"cpu": 0}) for task in tasks], chains=[], generated=None
        )
        ordered = file.ordered_for(0, self._terms.policy)
        question = question_of(ordered, replace(self._terms, supply=supply), self._overheads)
        judged = judge(ordered, question, self._terms.policy)
        if judged.verdict == "not judged":
            self.unjudged = self.unjudged or judged.because
        return judged.verdict


def place(file: TaskFile, source: str, terms: Terms, cpus: Sequence[VirtualCpu], fit: Fit) -> PlacementDocument:
    """Find a CPU for every task.

    Args:
        file: The tasks; the CPUs that it names do not count. Tasks that share a resource stay together.
        source: Its name.
        terms: Policy and overheads; the overheads are those of as many tasks as the whole file has.
        cpus: At least one.
        fit: A heuristic alone, or the search, which begins with all of them.

    Raises:
        UsageError: There are too many CPUs, under EDF a task has a reservation, or tasks start each other.
    """
    refuse_reservations_under_edf(file, terms)
    refuse_starts(file, "sched place")
    if len(cpus) > MOST_CPUS:
        raise UsageError(f"--on: {len(cpus)} virtual CPUs are more than {MOST_CPUS}", hint="leave some out")
    prover = _Prover(terms, terms.overheads.at(len(file.tasks)))
    groups = sorted(_groups(file.tasks), key=_utilization, reverse=True)
    found: list[_Room] | None = None
    found_by: str | None = None
    verdict: Verdict = "not judged"
    because: str | None = None
    try:
        for heuristic in _HEURISTICS if fit == "search" else (fit,):
            found, stuck = _by_heuristic(groups, cpus, prover, heuristic)
            found_by = f"{heuristic} fit, decreasing" if found is not None else None
            if found is not None:
                break
            because = f"{heuristic} fit finds no CPU for {stuck}; `--fit search` may find one"
        if found is None and fit == "search":
            rooms = [_Room(cpu.supply) for cpu in cpus]
            if _search(groups, rooms, prover):
                found, found_by = rooms, "search"
            elif prover.unjudged is None:
                verdict, because = "not schedulable", "no placement has all tasks within their deadlines"
            else:
                because = prover.unjudged
    except _OutOfAnalysesError:
        because = f"no placement was found in {MOST_ANALYSES} analyses, and not all were tried"
    pairs = [] if found is None else list(zip(cpus, found, strict=True))
    placed = tuple(_proof(file, source, terms, number, pair) for number, pair in enumerate(pairs))
    return PlacementDocument(
        file=source,
        policy=terms.policy,
        overheads=terms.overheads.source,
        fit=fit,
        found_by=found_by,
        verdict="schedulable" if found is not None else verdict,
        because=because if found is None else None,
        analyses=prover.analyses,
        placed=placed,
    )


def placed_file(file: TaskFile, document: PlacementDocument) -> TaskFile:
    """Give the tasks with the CPUs of a placement that was found: the number of each in the order of the CPUs."""
    proofs = [() if one.cpu is None else one.cpu.tasks for one in document.placed]
    cpus = {task.name: number for number, tasks in enumerate(proofs) for task in tasks}
    return file.model_copy(update={"tasks": [task.model_copy(update={"cpu": cpus[task.name]}) for task in file.tasks]})


def placement_exit_code(document: PlacementDocument) -> ExitCode:
    return {
        "schedulable": ExitCode.FINE,
        "not schedulable": ExitCode.THRESHOLD,
        "not judged": ExitCode.NOT_JUDGED,
    }[document.verdict]


def _proof(file: TaskFile, source: str, terms: Terms, number: int, pair: tuple[VirtualCpu, _Room]) -> PlacedDocument:
    """Analyse a CPU as it is now: what the search has asked is asked again, with margins."""
    cpu, room = pair
    if not room.groups:
        return PlacedDocument(name=cpu.name, supply=cpu.supply.text, cpu=None)
    tasks = [task.model_copy(update={"cpu": number}) for task in room.tasks]
    # Those of all tasks, not of the few that are on this CPU.
    constant = {name: [(1, Fraction(ns))] for name, ns in terms.overheads.at(len(file.tasks)).items()}
    whole = replace(terms, supply=cpu.supply, overheads=replace(terms.overheads, points=constant, provenance=None))
    (proved,) = analyze(TaskFile.model_construct(tasks=tasks, chains=[], generated=None), source, whole).cpus
    return PlacedDocument(name=cpu.name, supply=cpu.supply.text, cpu=proved)


def _utilization(tasks: Sequence[TaskTable]) -> Fraction:
    return sum((task.utilization for task in tasks), Fraction(0))


def _groups(tasks: Sequence[TaskTable]) -> list[tuple[TaskTable, ...]]:
    """Put tasks together that share resources, one with another or over a third."""
    groups: list[tuple[set[str], list[TaskTable]]] = []
    for task in tasks:
        names, members = set(task.resources), [task]
        apart = []
        for other_names, others in groups:
            if names & other_names:
                names |= other_names
                members = others + members
            else:
                apart.append((other_names, others))
        groups = [*apart, (names, members)]
    return [tuple(members) for _, members in groups]


def _by_heuristic(
    groups: Sequence[tuple[TaskTable, ...]], cpus: Sequence[VirtualCpu], prover: _Prover, fit: Fit
) -> tuple[list[_Room] | None, str]:
    rooms = [_Room(cpu.supply) for cpu in cpus]
    for group in groups:
        if fit == "worst":
            candidates = sorted(rooms, key=lambda room: room.utilization)
        elif fit == "best":
            candidates = sorted(rooms, key=lambda room: -room.utilization)
        else:
            candidates = rooms
        chosen = next((room for room in candidates if prover.accepts(room.supply, [*room.tasks, *group])), None)
        if chosen is None:
            return None, group[0].name
        chosen.groups.append(group)
    return rooms, ""


def _search(groups: Sequence[tuple[TaskTable, ...]], rooms: list[_Room], prover: _Prover) -> bool:
    if not groups:
        return True
    first, *rest = groups
    tried: set[tuple[Supply, frozenset[str]]] = set()
    for room in rooms:
        # Two empty CPUs of one supply, and any two with the same tasks, are the same question.
        alike = (room.supply, frozenset(task.name for task in room.tasks))
        if alike in tried:
            continue
        tried.add(alike)
        if prover.accepts(room.supply, [*room.tasks, *first]):
            room.groups.append(first)
            if _search(rest, rooms, prover):
                return True
            room.groups.pop()
    return False
