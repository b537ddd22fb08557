"""What a run's trace saw take the CPU beside its overheads, as demand before all tasks.

Of each source at most ``ceil((w + jitter) / period)`` takings of its longest cost in any window w: no window of the
trace had more (:mod:`stealtime.schedulability.overhead_seen`). It is charged as interrupts are, to tasks of all
priorities; a thread of others takes two decisions and switches more and leaves other caches behind. It bounds what was
observed, and no other time: on another machine, or beside another load, other devices may want more.

A real-time thread that has the name of a task is that task, and not charged a second time.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stealtime.schedulability.document import InterferenceDocument
from stealtime.schedulability.overhead_seen import Uncharged
from stealtime.schedulability.wording import duration

if TYPE_CHECKING:
    from stealtime.schedulability.question import Terms
    from stealtime.schedulability.task_file import TaskTable

THREAD = "real-time thread"
"""As traces call the class."""
NAME_LENGTH = 15
"""Of a thread, ``TASK_COMM_LEN`` of the kernel's include/linux/sched.h less the end."""
WINDOW_NS = 100_000_000
"""For which a terminal tells the number."""
SHOWN = 8
"""In a terminal; the document has all."""


def charged_sources(terms: "Terms", tasks: Sequence["TaskTable"]) -> list[Uncharged]:
    """Give the sources that are charged to these tasks."""
    if not terms.interference or any(task.reservation is not None for task in tasks):
        # What it takes of a reservation's runtime is not known.
        return []
    return [one for one in terms.overheads.uncharged or () if one.curves and not is_own(one.what, tasks)]


def is_own(what: str, tasks: Iterable["TaskTable"]) -> bool:
    """Tell whether a source is a thread of one of the tasks, which may be called by its name and number."""
    kind, _, thread = what.partition(f"{THREAD} ")
    return not kind and any(thread in _names(task.name) for task in tasks)


def _names(task: str) -> tuple[str, ...]:
    name, _, number = task.rpartition("-")
    return (task[:NAME_LENGTH], name) if number.isdecimal() else (task[:NAME_LENGTH],)


def interference_of(
    terms: "Terms", tasks: Sequence["TaskTable"], overheads: dict[str, int]
) -> list[tuple[int, int, int]]:
    """Give cost, period and jitter of all that is charged to these tasks, in ns."""
    switch = overheads.get("scheduling", 0) + overheads.get("context_switch", 0)
    caches = overheads.get("cache_preemption", 0)
    of_thread = 2 * switch + (2 if terms.accounting == "stretch" else 1) * caches
    found = []
    for one in charged_sources(terms, tasks):
        more = of_thread if one.what.startswith(THREAD) else 0
        found += [(curve.cost_ns + more, curve.period_ns, curve.jitter_ns) for curve in one.curves]
    return found


def interference_documents(sources: Iterable[Uncharged]) -> tuple[InterferenceDocument, ...]:
    """Tell what is charged, that which takes longest first."""
    return tuple(
        InterferenceDocument(
            what=one.what,
            longest_ns=one.longest_ns,
            count=one.count,
            share_percent=one.share_ppm / 10_000,
            curves=tuple((curve.cost_ns, curve.period_ns, curve.jitter_ns) for curve in one.curves),
        )
        for one in sorted(sources, key=lambda one: -one.longest_ns)
    )


def interference_lines(found: Sequence[InterferenceDocument]) -> Iterable[str]:
    """Say it in a terminal."""
    for one in found[:SHOWN]:
        taken = sum(-(-(WINDOW_NS + jitter) // period) * cost for cost, period, jitter in one.curves)
        times = sum(-(-(WINDOW_NS + jitter) // period) for _, period, jitter in one.curves)
        yield (
            f"charged as seen: {one.what}, up to {duration(one.longest_ns)}, at most {times:,} times and "
            f"{duration(taken)} in {duration(WINDOW_NS)}"
        )
    if len(found) > SHOWN:
        yield f"charged as seen: {len(found) - SHOWN} more of up to {duration(found[SHOWN].longest_ns)} (--json)"
