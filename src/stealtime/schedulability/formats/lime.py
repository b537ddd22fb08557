"""What LiME has extracted of threads: ``PID-VERSION.models.json`` and ``.infos.json``, in nanoseconds.

``src/model_extractors/dd.rs``, ``arrival/mod.rs`` and ``src/task.rs`` of github.com/LiME-org/lime-rtw (0.4.1, 7263b7d);
B. Brandenburg and others, RTAS 2025.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from stealtime.schedulability.formats.draft import Draft, TaskDraft, names_of
from stealtime.schedulability.formats.json_input import Pairs, name_in, number_in, parse_json
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.quantities import format_duration

MODELS, INFOS = ".models.json", ".infos.json"


@dataclass(frozen=True)
class _Arrivals:
    """How often a thread's jobs come, in ns."""

    rank: int
    """Less is preferred."""
    period_ns: Fraction
    jitter_ns: Fraction
    deadline_ns: Fraction | None = None
    words: str = ""


@dataclass(frozen=True)
class _Reading:
    """A thread as LiME reads it by one kind of job separator."""

    separator: str
    jobs: int
    arrivals: _Arrivals
    cost_ns: Fraction
    suspension_ns: Fraction


def read_lime_folder(draft: Draft, folder: Path) -> None:
    """Read every thread that LiME wrote models of.

    Raises:
        UsageError: There is none, or one of them has no bound of its arrivals.
    """
    files = sorted(folder.glob(f"*{MODELS}"), key=lambda one: (len(one.name), one.name))
    if not files:
        raise draft.refuse(f"no file in it ends with {MODELS}", hint="give the folder that `lime-rtw extract` wrote")
    threads = [_thread(draft, file, read_own_text(file, "model")) for file in files]
    _finish(draft, threads)


def read_lime_file(draft: Draft, text: str) -> None:
    """Read one thread; who it is stands in the file beside it, where that is there.

    Raises:
        UsageError: It has no bound of its arrivals.
    """
    _finish(draft, [_thread(draft, draft.path, text)])


def is_lime(text: str) -> bool:
    return '"by_job_separator"' in text


def _thread(draft: Draft, file: Path, text: str) -> tuple[TaskDraft, str]:
    identity = file.name.removesuffix(MODELS)
    beside = file.with_name(identity + INFOS)
    infos = (
        parse_json(draft, read_own_text(beside, "file")) if file.name.endswith(MODELS) and beside.exists() else Pairs()
    )
    name = name_in(infos.get("comm") if isinstance(infos, Pairs) else None, identity)
    reading = _reading(draft, parse_json(draft, text), name)
    arrivals = reading.arrivals
    task = TaskDraft(
        name=name,
        cost_ns=reading.cost_ns + reading.suspension_ns,
        period_ns=arrivals.period_ns,
        deadline_ns=arrivals.deadline_ns,
        jitter_ns=arrivals.jitter_ns,
    )
    if reading.suspension_ns:
        suspended = format_duration(int(reading.suspension_ns))
        draft.remark(
            f"{name} suspends itself for up to {suspended}, counted as execution: safe, and more than it takes."
        )
    if arrivals.words:
        draft.remark(f"{name}: {arrivals.words}")
    return task, _scheduled(draft, task, infos if isinstance(infos, Pairs) else Pairs())


def _reading(draft: Draft, model: Any, name: str) -> _Reading:
    separators = model.get("by_job_separator") if isinstance(model, Pairs) else None
    if not isinstance(separators, list):
        raise draft.refuse(f"{name} has no by_job_separator, which LiME writes")
    readings = [one for one in (_one(draft, each, name) for each in separators) if one is not None]
    if not readings:
        raise draft.refuse(f"{name} has no arrival model: LiME found no bound of how often it arrives")
    chosen = min(readings, key=lambda one: (one.arrivals.rank, -one.jobs))
    if len(readings) > 1:
        draft.remark(
            f"{name} is read by {chosen.separator} ({chosen.jobs} jobs); LiME also has "
            f"{names_of(one.separator for one in readings if one is not chosen)}."
        )
    return chosen


def _one(draft: Draft, each: Any, name: str) -> _Reading | None:
    if not isinstance(each, Pairs):
        raise draft.refuse(f"{name} has a job separator {each!r}, which is no object")
    separator = each.get("separator")
    kind = name_in(separator.get("type"), "?") if isinstance(separator, Pairs) else name_in(separator, "?")
    costs, models = each.get("wcet_n"), each.get("arrival_models")
    if not isinstance(costs, list) or not costs or not isinstance(models, list) or not models:
        return None
    arrivals = [_arrivals(draft, one, name) for one in models if isinstance(one, Pairs)]
    known = [one for one in arrivals if one is not None]
    if not known:
        return None
    cost_ns = number_in(draft, costs[0], f"wcet_n of {name}")
    return _Reading(
        separator=kind,
        jobs=int(number_in(draft, each.get("count") or 0, f"count of {name}")),
        # Where jobs come in bursts, their least separation alone asks for more than a CPU, and the curve does not.
        arrivals=min(known, key=lambda one: (one.period_ns < cost_ns, one.rank)),
        cost_ns=cost_ns,
        suspension_ns=number_in(draft, each.get("dynamic_self_suspension") or 0, f"self-suspension of {name}"),
    )


def _arrivals(draft: Draft, model: Pairs, name: str) -> _Arrivals | None:
    kind = model.get("model")
    if kind == "periodic":
        rank = 0 if model.get("on") == "arrival" else 1
        period = number_in(draft, model.get("period"), f"period of {name}")
        return _Arrivals(rank, period, number_in(draft, model.get("max_jitter"), f"max_jitter of {name}"))
    if kind == "sporadic":
        separation = number_in(draft, model.get("mit"), f"mit of {name}")
        return _Arrivals(2, separation, Fraction(0), words="no period was found; its least separation is taken.")
    if kind == "arrival_curve" and isinstance(model.get("dmins"), list):
        return _under_curve([number_in(draft, one, f"dmins of {name}") for one in model.get("dmins")])
    return None


def _under_curve(distances: list[Fraction]) -> _Arrivals | None:
    """Bound a burst by a period and a jitter: n + 1 jobs need at least n T - J, for each n of the curve."""
    if not distances or distances[-1] == 0:
        return None
    period = distances[-1] / len(distances)
    jitter = max(Fraction(0), *(number * period - distance for number, distance in enumerate(distances, start=1)))
    words = (
        f"its arrival curve of {len(distances)} distances is bounded by a period of {format_duration(int(period))} "
        "with jitter, longer bursts are not; its deadline is taken as period and jitter."
    )
    return _Arrivals(3, period, jitter, deadline_ns=period + jitter, words=words)


def _scheduled(draft: Draft, task: TaskDraft, infos: Pairs) -> str:
    """Take policy and CPU of a thread, and give the policy's name."""
    affinity = infos.get("affinity_mask")
    cpus = affinity.get("cpu_set") if isinstance(affinity, Pairs) else None
    if isinstance(cpus, list) and len(cpus) == 1 and isinstance(cpus[0], int):
        task.cpu = cpus[0]
    policy = infos.get("policy")
    if isinstance(policy, Pairs) and len(policy) == 1 and isinstance(policy[0][1], Pairs):
        name, parameters = policy[0]
        if name in ("SCHED_FIFO", "SCHED_RR"):
            task.priority = int(number_in(draft, parameters.get("prio"), f"prio of {task.name}"))
        elif name == "SCHED_DEADLINE":
            task.reservation_ns = (
                number_in(draft, parameters.get("runtime"), f"runtime of {task.name}"),
                number_in(draft, parameters.get("period"), f"period of {task.name}"),
                number_in(draft, parameters.get("deadline"), f"deadline of {task.name}"),
            )
        return name
    return name_in(policy, "")


def _finish(draft: Draft, threads: list[tuple[TaskDraft, str]]) -> None:
    draft.tasks = [task for task, _ in threads]
    policies = {policy for _, policy in threads}
    draft.name_twins()
    others = [task for task in draft.tasks if task.reservation_ns is None]
    if policies & {"SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"}:
        draft.policy = "fixed-priority"
        without = [task.name for task in others if task.priority is None]
        if without:
            raise draft.refuse(
                f"{names_of(without)} has no real-time priority, and others have one",
                hint="leave its files out of the folder: SCHED_OTHER does not disturb SCHED_FIFO",
            )
    if "SCHED_RR" in policies:
        draft.remark("SCHED_RR is taken as SCHED_FIFO.")
    draft.remark(
        "Costs and arrivals are what LiME saw, not what may come; WCET(n) is taken as n WCET(1). A deadline that LiME "
        "does not know is taken as the period."
    )


def describe_folder(folder: Path) -> bool:
    """Tell whether LiME wrote it."""
    return folder.is_dir() and any(folder.glob(f"*{MODELS}"))
