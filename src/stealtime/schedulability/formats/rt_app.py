"""rt-app's workload (``doc/tutorial.txt`` of github.com/scheduler-tools/rt-app, 55cb0c0); times are microseconds."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from stealtime.schedulability.formats.draft import Draft, TaskDraft, names_of
from stealtime.schedulability.formats.json_input import Pairs, name_in, number_in, parse_json
from stealtime.vocabulary.quantities import NANOSECONDS

_US = NANOSECONDS["us"]
_RUNS = ("run", "runtime")
_UNTIMED = ("mem", "iorun", "memrun")
"""Given in bytes: how long they take is not in the file."""
_AWAITED = ("suspend", "wait", "sync", "barrier", "sem_wait")
_HARMLESS = ("resume", "signal", "broad", "sem_post", "yield")
_LOCKS = ("lock", "unlock")
_EVENTS = (*_RUNS, *_UNTIMED, *_AWAITED, *_HARMLESS, *_LOCKS, "sleep", "timer", "fork")
_MOST_COPIES = 1_000


@dataclass
class _Thread:
    """What the events of a thread come to."""

    cost_us: Fraction = Fraction(0)
    """Since it last slept."""
    jobs: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    """Cost and period."""


def is_rt_app(document: Any) -> bool:
    return isinstance(document, Pairs) and isinstance(document.get("tasks"), Pairs)


def read_rt_app(draft: Draft, text: str) -> None:
    """Read the threads of a workload.

    Raises:
        UsageError: It is none, or a thread has no period, or a length that the file does not tell.
    """
    document = parse_json(draft, text)
    if not is_rt_app(document):
        raise draft.refuse("it has no object `tasks`, as a workload of rt-app has")
    default = Pairs() if not isinstance(document.get("global"), Pairs) else document.get("global")
    policy = name_in(default.get("default_policy"), "SCHED_OTHER")
    forked = {value for _, thread in document.get("tasks") for name, value in _all_events(thread) if name == "fork"}
    policies = {}
    for name, thread in document.get("tasks"):
        if not isinstance(thread, Pairs):
            raise draft.refuse(f"the thread {name} is {thread!r}, which is no object")
        if name in forked:
            raise draft.refuse(f"the thread {name} is started by others (fork): nothing bounds how many run")
        policies.update(_thread(draft, name, thread, policy))
    _policies(draft, policies)


def _thread(draft: Draft, name: str, thread: Pairs, default_policy: str) -> dict[str, str]:
    copies = 1 if thread.get("instance") is None else number_in(draft, thread.get("instance"), f"instance of {name}")
    if copies > _MOST_COPIES:
        raise draft.refuse(f"instance of {name} is {copies}, more than {_MOST_COPIES}")
    cost, period = _jobs(draft, name, thread)
    policy = name_in(thread.get("policy"), default_policy)
    task = TaskDraft(name=name, cost_ns=cost * _US, period_ns=period * _US, cpu=_cpu(draft, name, thread))
    if policy in ("SCHED_FIFO", "SCHED_RR"):
        priority = thread.get("priority")
        task.priority = 10 if priority is None else int(number_in(draft, priority, f"priority of {name}"))
    elif policy == "SCHED_DEADLINE":
        task.reservation_ns = _reservation(draft, name, thread)
    if thread.get("delay"):
        draft.remark(f"The delay of {name} is not taken: the bounds hold for every offset.")
    names = [name] if copies == 1 else [f"{name}-{number}" for number in range(int(copies))]
    for one in names:
        draft.tasks.append(TaskDraft(**{**vars(task), "name": one}))
    return dict.fromkeys(names, policy)


def _reservation(draft: Draft, name: str, thread: Pairs) -> tuple[Fraction, Fraction, Fraction]:
    """Read what SCHED_DEADLINE is given; the period is the runtime and the deadline the period where left out."""

    def given(key: str) -> Fraction | None:
        value = thread.get(f"dl-{key}")
        return None if value is None else number_in(draft, value, f"dl-{key} of {name}") * _US

    runtime = given("runtime")
    if runtime is None:
        raise draft.refuse(f"the thread {name} is of SCHED_DEADLINE and has no dl-runtime")
    period = given("period") or runtime
    return runtime, period, given("deadline") or period


def _all_events(thread: Any) -> list[tuple[str, Any]]:
    """Give the events of all phases in order, each by its kind: ``run1`` is a run."""
    if not isinstance(thread, Pairs):
        return []
    phases = thread.get("phases")
    parts = [phase for _, phase in phases if isinstance(phase, Pairs)] if isinstance(phases, Pairs) else [thread]
    found = []
    for phase in parts:
        for key, value in phase:
            kind = max((one for one in _EVENTS if key.startswith(one)), key=len, default=None)
            if kind is not None and not (key in ("runtime", "period") and thread.get("dl-runtime")):
                found.append((kind, value))
    return found


def _jobs(draft: Draft, name: str, thread: Pairs) -> tuple[Fraction, Fraction]:
    found = _Thread()
    locked = False
    for kind, value in _all_events(thread):
        if kind in _RUNS:
            found.cost_us += number_in(draft, value, f"{kind} of {name}")
        elif kind in ("timer", "sleep"):
            if kind == "timer":
                period = number_in(draft, value.get("period") if isinstance(value, Pairs) else None, f"timer of {name}")
            else:
                period = found.cost_us + number_in(draft, value, f"sleep of {name}")
                draft.remark(
                    f"{name} sleeps between its runs: run and sleep together are taken as its period, which is true "
                    "where a run takes as long as the file says."
                )
            found.jobs.append((found.cost_us, period))
            found.cost_us = Fraction(0)
        elif kind in _UNTIMED:
            raise draft.refuse(
                f"the thread {name} has the event {kind}, and how long that takes is not in the file",
                hint="measure it, and write a run of that many microseconds in its place",
            )
        elif kind in _AWAITED:
            raise draft.refuse(f"the thread {name} waits for another one ({kind}): its own period is not in the file")
        elif kind in _LOCKS:
            locked = True
    if locked:
        raise draft.refuse(
            f"the thread {name} locks a mutex, whose blocking is not computed from this format",
            hint="write the blocking time of each task into a task file: `blocking`",
        )
    if not found.jobs:
        raise draft.refuse(f"the thread {name} has neither a timer nor a sleep: it never waits")
    # What runs after the last timer goes before the first of the next round.
    found.jobs[0] = (found.jobs[0][0] + found.cost_us, found.jobs[0][1])
    working = [job for job in found.jobs if job[0] > 0] or found.jobs
    if len(set(found.jobs)) > 1:
        draft.remark(f"{name} has several phases: its longest run and its shortest period are taken, which is safe.")
    return max(cost for cost, _ in working), min(period for _, period in found.jobs)


def _cpu(draft: Draft, name: str, thread: Pairs) -> int:
    phases = thread.get("phases")
    parts = [thread, *([one for _, one in phases if isinstance(one, Pairs)] if isinstance(phases, Pairs) else [])]
    sets = [part.get("cpus") for part in parts if part.get("cpus") is not None]
    if not sets:
        return 0
    if any(not isinstance(one, list) or len(one) != 1 or one != sets[0] for one in sets):
        raise draft.refuse(
            f"the thread {name} may migrate among several CPUs, and the analysis is of tasks that stay on one",
            hint="give it one CPU: cpus",
        )
    return int(number_in(draft, sets[0][0], f"cpus of {name}"))


def _policies(draft: Draft, policies: dict[str, str]) -> None:
    found = set(policies.values())
    real_time = {"SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"}
    if found <= real_time:
        draft.policy = "fixed-priority"
    elif found & real_time:
        others = names_of(name for name, policy in policies.items() if policy not in real_time)
        raise draft.refuse(
            f"{others} has no real-time policy, and others have one",
            hint="leave it out: SCHED_OTHER does not disturb them",
        )
    else:
        named = names_of(sorted(policies))
        draft.remark(f"{', '.join(sorted(found))} promises nothing: {named} are taken as of fixed priorities.")
    if "SCHED_RR" in found:
        draft.remark("SCHED_RR is taken as SCHED_FIFO.")
    if any(task.cost_ns for task in draft.tasks):
        draft.remark("A run is taken as it stands in the file, true at the speed that rt-app was calibrated at.")
