"""RT throttling and the fair server of the machine that a run measured: charged where the tasks can bring them about.

Both only strike a CPU that real-time threads keep from ordinary ones for long. RT throttling: when they have run for
its runtime within its period. The fair server: it waits as long as its own runtime still fits into its period, and time
that ordinary threads get meanwhile counts as its own (``dl_defer``, commit 557a6bfc662c).

Let R be the bounds of responses without either. As long as neither has struck, tasks run in a window of length w for at
most the sum of ceil((w + R)/T) C', with the kernel's overheads of each job, and interrupts take ceil((w + R)/T) rel and
the ticks. Where RT throttling leaves that much in its period (less a tick of 10 ms, by which it may look late), and
where the fair server's runtime is left over in the window in which it waits, none ever strikes first. Otherwise both
are taken off the supply. Real-time threads of others are not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stealtime import _core
from stealtime.schedulability.interference import interference_of
from stealtime.schedulability.kernel_limits import (
    FAIR_SERVER_PERIOD_NS,
    FAIR_SERVER_RUNTIME_NS,
    SLOWEST_TICK_NS,
    KernelLimits,
)
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.starts import has_starts
from stealtime.schedulability.supply import combined
from stealtime.schedulability.task_file import TaskFile, TaskTable
from stealtime.schedulability.wording import duration
from stealtime.vocabulary.quantities import NANOSECONDS
from stealtime.vocabulary.readings import Absent, Reading

_THROTTLING_PERIOD_NS = NANOSECONDS["s"]
"""``sched_rt_period_us`` of every kernel unless somebody changed it: facts of a machine have the runtime alone."""
_FIRST_WITH_FAIR_SERVER = (6, 12)


@dataclass(frozen=True)
class Charged:
    """The terms to analyse under, and what is to be said of them."""

    terms: Terms
    remark: str | None = None


def limits_of(facts: Mapping[str, Reading]) -> KernelLimits | None:
    """Give what a machine's kernel may take, by the facts that its agent told before it lifted anything.

    Since Linux 6.12 a kernel without RT_GROUP_SCHED throttles nobody, which facts do not tell: then it is charged, too.
    None where they do not tell of it.
    """
    runtime, release = facts.get("sched_rt_runtime_us"), facts.get("kernel_release")
    if runtime is None or release is None or isinstance(runtime, Absent) or isinstance(release, Absent):
        return None
    runtime_ns = int(str(runtime.value)) * NANOSECONDS["us"] if runtime.value is not None else -1
    throttling = (runtime_ns, _THROTTLING_PERIOD_NS) if 0 <= runtime_ns < _THROTTLING_PERIOD_NS else None
    number = tuple(int(part) for part in str(release.value).split("-")[0].split(".")[:2] if part.isdigit())
    fair_server = (FAIR_SERVER_RUNTIME_NS, FAIR_SERVER_PERIOD_NS) if number >= _FIRST_WITH_FAIR_SERVER else None
    return KernelLimits(throttling, fair_server)


def with_limits_of_machine(file: TaskFile, terms: Terms) -> Charged:
    """Take what the kernel of the overheads' machine may take off the supply, unless these tasks never bring it about.

    Raises:
        StealtimeError: Nothing is left.
    """
    limits = terms.overheads.provenance.kernel_limits if terms.overheads.provenance is not None else None
    if limits is None or terms.supply.has_kernel_limits or terms.policy == "edf":
        return Charged(terms)
    if limits.throttling_ns is None and limits.fair_server_ns is None:
        return Charged(replace(terms, supply=replace(terms.supply, has_kernel_limits=True)))
    charged = Charged(replace(terms, supply=combined([terms.supply, limits.supply()])))
    has_reservations = any(task.reservation is not None for task in file.tasks)
    if terms.supply.kind != "dedicated" or has_reservations or has_starts(file):
        # A kernel counts what its host takes as time of the thread that has its CPU. What reservations take is no time
        # of real-time threads, but keeps ordinary ones waiting.
        return charged
    closest = _closest(file, terms, limits)
    if closest is None:
        return Charged(terms, "RT throttling and the fair server are not charged: deadlines are missed without them")
    needed_ns, room_ns, window_ns = closest
    if needed_ns > room_ns:
        return charged
    return Charged(
        replace(terms, supply=replace(terms.supply, has_kernel_limits=True)),
        f"RT throttling and the fair server never strike these tasks: with overheads they take at most "
        f"{duration(needed_ns)} of any {duration(window_ns)}, and {duration(room_ns)} are left to them; from "
        f"{room_ns / needed_ns:.2f} times as much on they may strike, which the margin does not know",
    )


def _closest(file: TaskFile, terms: Terms, limits: KernelLimits) -> tuple[int, int, int] | None:
    """Give what is needed, what is left and in which window, where that is closest; None where a deadline is missed."""
    windows = []
    if limits.throttling_ns is not None:
        runtime_ns, period_ns = limits.throttling_ns
        windows.append((period_ns, runtime_ns - SLOWEST_TICK_NS))
    if limits.fair_server_ns is not None:
        runtime_ns, period_ns = limits.fair_server_ns
        windows.append((period_ns - runtime_ns, period_ns - 2 * runtime_ns))
    overheads = terms.overheads.at(len(file.tasks))
    closest: tuple[int, int, int] | None = None
    for cpu in file.cpus():
        tasks = file.ordered_for(cpu, terms.policy)
        question = question_of(tasks, terms, overheads)
        responses = [bound for bound, _, _ in _core.analyze_tasks(question)["responses"] or []]
        if any(bound is None or bound > one.deadline_ns for bound, one in zip(responses, tasks, strict=True)):
            return None
        known = [bound or 0 for bound in responses]
        for window_ns, room_ns in windows:
            needed = _most_in(window_ns, tasks, known, overheads, terms)
            if closest is None or needed * closest[1] > closest[0] * room_ns:
                closest = needed, room_ns, window_ns
    return closest


def _most_in(
    window_ns: int, tasks: Sequence[TaskTable], responses_ns: Sequence[int], overheads: dict[str, int], terms: Terms
) -> int:
    get = overheads.get
    taken = interference_of(terms, tasks, overheads)
    per_job = 2 * (get("scheduling", 0) + get("context_switch", 0)) + get("cache_preemption", 0) + get("release", 0)
    late_ns = get("event_latency", 0)
    bounds = zip(tasks, responses_ns, strict=True)
    jobs = [-(-(window_ns + late_ns + response) // one.period) for one, response in bounds]
    ticks = -(-(window_ns + late_ns) // terms.overheads.tick_period_ns) if terms.overheads.tick_period_ns else 0
    costs = sum(count * (one.cost + per_job) for one, count in zip(tasks, jobs, strict=True))
    # One may be under way when the window begins.
    beside = [(-(-(window_ns + jitter) // period) + 1) * cost for cost, period, jitter in taken]
    return costs + ticks * get("tick", 0) + sum(beside)
