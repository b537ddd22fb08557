"""From what was watched to a document: each thread as a task, with how sure its figures are."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stealtime import _core
from stealtime.extraction.document import (
    ArrivalDocument,
    CostDocument,
    CurvePointDocument,
    ExtractDocument,
    HostDocument,
    LeftOutDocument,
    TaskDocument,
)
from stealtime.extraction.task_set import task_file_text
from stealtime.report import notation
from stealtime.vocabulary.readings import Absent

if TYPE_CHECKING:
    from stealtime._core import ExtractedDict
    from stealtime.extraction.watching import Watched
    from stealtime.wire.program import ProgramThread

_REAL_TIME = ("SCHED_FIFO", "SCHED_RR")
DEADLINE = "SCHED_DEADLINE"
_GROWS = 1.02
"""A second half whose worst exceeds the first's by more says that the worst was not seen yet."""
_LEAST_JOBS = 30
_SEEN = 0.85
"""The kernel counts the way of each switch too; a smaller share of its count means that stretches are missing."""
_LEAST_COUNTED_NS = 1_000_000
_LEAST_SHARE = 0.01
_FIRST_ORDINARY_PRIORITY = 100
"""The kernel's priorities below are real-time (``MAX_RT_PRIO``)."""


def found_in(watched: "Watched") -> "list[ExtractedDict]":
    """Find the tasks in a trace, one for each thread that did anything."""
    outcome = watched.tracing
    clocks = ((outcome.start.tsc, outcome.start.monotonic_ns), (outcome.end.tsc, outcome.end.monotonic_ns))
    return _core.extract_tasks(watched.events, list(watched.threads), clocks, watched.host.taken)


def extract(watched: "Watched") -> ExtractDocument:
    """Make the document of what was watched."""
    found = found_in(watched)
    names = Counter(watched.threads[one["thread"]].name for one in found)
    tasks = tuple(_task(one, watched, names) for one in found if one["counted"] or one["arrivals"] > 1)
    shown = {one.thread for one in tasks}
    quiet = tuple(sorted(f"{one.name} ({number})" for number, one in watched.threads.items() if number not in shown))
    tasks = tuple(sorted(tasks, key=_order))
    text, because = task_file_text(tasks, watched.order.words, watched.elapsed_ns)
    return ExtractDocument(
        machine=watched.order.machine,
        program=watched.order.words,
        watched_ns=watched.elapsed_ns,
        events=watched.tracing.events,
        lost_events=watched.tracing.lost,
        host=watched.host.words,
        tasks=tasks,
        quiet_threads=quiet,
        notes=(*_notes(watched), *((because,) if because else ())),
        task_file=text,
    )


def _order(task: TaskDocument) -> tuple[bool, int, str]:
    return task.excluded is not None, -(task.priority or 0), task.name


def _task(one: "ExtractedDict", watched: "Watched", names: Counter[str]) -> TaskDocument:
    thread = watched.threads[one["thread"]]
    reservation = thread.reservation
    counted_ns = watched.ran_ns.get(thread.id)
    seen = None
    if counted_ns is not None and counted_ns >= _LEAST_COUNTED_NS:
        others = int(one["jobs"]["interrupts"].sum() + one["jobs"]["taken"].sum()) / watched.tracing.tsc_hz * 1e9
        seen = min(1.0, (one["ran_ns"] + others) / counted_ns)
    own, first, second = one["own_ns"]
    return TaskDocument(
        name=thread.name if names[thread.name] == 1 else f"{thread.name}-{thread.id}",
        thread=thread.id,
        process=thread.process,
        policy=thread.policy,
        priority=thread.priority if thread.policy in _REAL_TIME else None,
        deadline_ns=None if reservation is None else reservation.deadline_ns,
        reserved_ns=None if reservation is None else reservation.runtime_ns,
        reserved_period_ns=None if reservation is None else reservation.period_ns,
        cpus=_cpus(one, thread),
        arrival=_arrival(one),
        cost=CostDocument(
            jobs=one["counted"],
            own_ns=own,
            with_calls_ns=one["ran_most_ns"],
            first_half_ns=first,
            second_half_ns=second,
            interrupts_ns=one["interrupts_most_ns"],
        ),
        suspended_ns=one["suspended_most_ns"],
        suspending=one["suspending"],
        response_ns=one["response_most_ns"],
        lateness_ns=one["lateness_most_ns"],
        lateness_median_ns=one["lateness_median_ns"],
        host=_host(one) if watched.host.taken else None,
        left_out=LeftOutDocument(holed=one["holed"], merged=one["merged"], unseen_switches=one["unseen"]),
        seen_percent=None if seen is None else round(100 * seen, 1),
        notes=tuple(_task_notes(one, thread, seen)),
        excluded=_excluded(one, thread),
    )


def _cpus(one: "ExtractedDict", thread: "ProgramThread") -> tuple[int, ...]:
    """Give where it runs, most first: where it is held to, else where it was seen to do more than to begin."""
    if len(thread.cpus) == 1:
        return tuple(thread.cpus)
    least_ns = _LEAST_SHARE * sum(ns for _, ns in one["cpus"])
    return tuple(cpu for cpu, ns in sorted(one["cpus"], key=lambda pair: -pair[1]) if ns >= least_ns)


def _arrival(one: "ExtractedDict") -> ArrivalDocument:
    sporadic = one["sporadic"]
    curve: tuple[CurvePointDocument, ...]
    if sporadic is None:
        curve, period, jitter, least = (), one["period_ns"], one["spread_ns"], None
    else:
        curve = tuple(CurvePointDocument(jobs=jobs, within_ns=within) for jobs, within in sporadic["curve"])
        period, jitter, least = sporadic["period_ns"], sporadic["jitter_ns"], sporadic["least_distance_ns"]
    return ArrivalDocument(
        kind=one["arrival"],
        arrivals=one["arrivals"],
        period_ns=period,
        period_error_ns=one["period_error_ns"],
        jitter_ns=jitter,
        missed_periods=one["missed_periods"],
        restarts=one["restarts"],
        least_distance_ns=least,
        curve=curve,
    )


def _host(one: "ExtractedDict") -> HostDocument:
    return HostDocument(
        jobs=one["touched"],
        are_counted=one["counts_touched"],
        taken_ns=one["taken_most_ns"],
        own_ns=one["touched_most_ns"],
    )


def _excluded(one: "ExtractedDict", thread: "ProgramThread") -> str | None:
    if one["arrival"] == "too few" or not one["counted"]:
        return f"only {_jobs(one['counted'])} of it was seen" if one["counted"] == 1 else "no whole job of it was seen"
    if thread.policy not in (*_REAL_TIME, DEADLINE):
        return f"it is under {thread.policy}, which guarantees nothing"
    return None


def _task_notes(one: "ExtractedDict", thread: "ProgramThread", seen: float | None) -> list[str]:
    _, first, second = one["own_ns"]
    notes = []
    if 0 < one["counted"] < _LEAST_JOBS:
        notes.append(f"its cost is the most of {_jobs(one['counted'])} only: watch longer")
    if one["counted"] >= _LEAST_JOBS and second > _GROWS * first:
        notes.append(
            f"its cost still grew: {notation.duration(first)} in the first half of the time, "
            f"{notation.duration(second)} in the second"
        )
    if one["arrival"] == "sporadic" and one["activations_by_timer"] >= 0.9 * one["activations"]:
        notes.append("timers wake it, but on no grid: it seems to sleep relatively, so that each job puts off the next")
    if one["restarts"]:
        notes.append(f"it set its timers anew {one['restarts']} times, as some programs do after they were late")
    if one["merged"]:
        notes.append(f"not among those that the cost is of: {_jobs(one['merged'])} that ran into the next period")
    if one["holed"]:
        notes.append(f"not counted: {_jobs(one['holed'])} with a hole in the trace")
    if one["unseen"] and not one["tells_calls"]:
        notes.append(f"the kernel did not tell {one['unseen']} switches to it: of these jobs the cost is not known")
    if one["suspending"]:
        notes.append(
            f"{one['suspending']} of {_jobs(one['counted'])} wait inside, at most "
            f"{notation.duration(one['suspended_most_ns'])}: the task file counts that as cost, which is safe, and "
            "often more than needed"
        )
    cpus = _cpus(one, thread)
    if len(cpus) > 1:
        notes.append(f"it ran on the CPUs {', '.join(map(str, cpus))}; the analysis is of tasks that stay on one")
    if sum(priority < _FIRST_ORDINARY_PRIORITY for priority in one["priorities"]) > 1:
        notes.append("its priority changed meanwhile")
    if thread.policy == DEADLINE:
        notes.append("a throttled thread is not woken again: where it yields instead of waiting, jobs cannot be told")
    if seen is not None and seen < _SEEN:
        notes.append(f"the trace shows {100 * seen:.0f} % of the time that the kernel counts for it")
    if one["counts_touched"]:
        notes.append("the host touched nearly all of its jobs: its cost is without what it certainly took, no less")
    return notes


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _notes(watched: "Watched") -> list[str]:
    outcome = watched.tracing
    notes = []
    if watched.ended_early:
        notes.append(f"the program ended after {watched.elapsed_ns / 1e9:.1f} s")
    notes += [finding.text for finding in outcome.findings]
    for group, what in (("timer_starts", "programmed releases"), ("calls", "where a job's own instructions begin")):
        reading = outcome.groups.get(group)
        if isinstance(reading, Absent):
            notes.append(f"{what} could not be told: {reading.absent}")
    strangers = _unlisted(watched)
    if strangers:
        notes.append(f"{strangers} threads came and went between two looks, and are not told of")
    return notes


def _unlisted(watched: "Watched") -> int:
    """Count threads that made system calls and were in no list: calls are only recorded of the program's own."""
    events = watched.events
    calls = np.isin(events["kind"], [_core.EVENT_KINDS.index(kind) for kind in ("call_entry", "file_call")])
    return len(set(np.unique(events["thread"][calls]).tolist()) - set(watched.threads))
