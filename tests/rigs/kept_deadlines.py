"""Jobs held against the bounds of their response times: which exceed them, and what of that no hypothesis explains.

A bound holds if no job executes longer than its cost and no overhead takes longer than the one that is charged. Both
can be seen in the kernel's trace of the very run:

* *stood still*: how much longer a thread was on its CPU, in user mode and without an interrupt, than its job's cost.
  The work of a job is a fixed number of loops, so the CPU did not work meanwhile: natively, its host had it, or the
  processor was slower than at its calibration;
* *beyond the charge*: what else took the CPU since the jobs that it is about began to wait, less all the overheads that
  the analysis charges for that time.

Both together are time that nobody worked for the jobs of one busy window, which is what the analysis calls blocking. A
response that exceeds even the bound with that blocking contradicts the analysis.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SWITCH = 0
ENTRIES, EXITS = (2, 4, 6), (3, 5, 7)
"""Of interrupts, softirqs and vectors."""


@dataclass(frozen=True)
class RanJobs:
    """All jobs of a run on one CPU; times in ns on one time line, arrays equally long."""

    task: NDArray[np.int64]
    """The most urgent is 0."""
    release: NDArray[np.int64]
    finish: NDArray[np.int64]
    own: NDArray[np.int64]
    """How long the job's thread was on the CPU from its start to its finish, outside of interrupts."""


@dataclass(frozen=True)
class Exceeded:
    """One job that took longer than its bound."""

    task: int
    response_ns: int
    bound_ns: int
    stood_still_ns: int
    beyond_charge_ns: int
    bound_with_both_ns: int | None
    """None where there is no bound any more."""

    @property
    def unexplained_ns(self) -> int:
        """What contradicts the analysis; nothing where that is 0."""
        return 0 if self.bound_with_both_ns is None else max(0, self.response_ns - self.bound_with_both_ns)

    @property
    def text(self) -> str:
        """The job with its evidence, in ms."""
        return (
            f"task {self.task} responded after {_ms(self.response_ns)} instead of {_ms(self.bound_ns)}: "
            f"{_ms(self.stood_still_ns)} in which its threads were on the CPU, undisturbed, beyond their cost, "
            f"{_ms(self.beyond_charge_ns)} of overheads beyond what was charged, {_ms(self.unexplained_ns)} unexplained"
        )


def exceeding(
    jobs: RanJobs,
    bound_ns: Callable[[int, int], int | None],
    costs_ns: Sequence[int],
    charged: Mapping[str, int],
    tick_ns: int,
) -> list[Exceeded]:
    """Give all jobs whose response exceeds the bound of their task, with what explains it.

    Args:
        jobs: All of a run.
        bound_ns: Gives the bound of a task's response, from release to finish, under a blocking in ns.
        costs_ns: Of each task.
        charged: The overheads of the analysis, in ns by name.
        tick_ns: From one tick to the next.
    """
    response = jobs.finish - jobs.release
    bounds = np.array([_known(bound_ns(task, 0)) for task in range(len(costs_ns))])
    costs = np.array(costs_ns)
    found = []
    for late in np.flatnonzero(response > bounds[jobs.task]):
        urgent = jobs.task <= jobs.task[late]
        begin = _busy_since(jobs, urgent, int(jobs.release[late]))
        end = int(jobs.finish[late])
        inside = urgent & (jobs.release >= begin) & (jobs.finish <= end)
        stood_still = np.maximum(0, jobs.own[inside] - costs[jobs.task[inside]]).sum()
        beside = end - begin - jobs.own[inside].sum()
        beyond = max(0, int(beside) - _charge(jobs, inside, begin, end, charged, tick_ns))
        found.append(
            Exceeded(
                task=int(jobs.task[late]),
                response_ns=int(response[late]),
                bound_ns=int(bounds[jobs.task[late]]),
                stood_still_ns=int(stood_still),
                beyond_charge_ns=beyond,
                bound_with_both_ns=bound_ns(int(jobs.task[late]), int(stood_still) + beyond),
            )
        )
    return found


def own_time(
    trace: Mapping[str, NDArray[np.int64]], cpu: int, thread: int, begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Tell how long a thread was on a CPU outside of interrupts between pairs of moments, by the kernel's trace.

    Args:
        trace: Its columns ``time``, ``cpu``, ``kind`` and ``other``, in the order of time.
        cpu: Where the thread runs.
        thread: As the trace counts threads.
        begin: Times of the trace's counter ...
        end: ... each with its end.

    Returns:
        In units of the counter.
    """
    here = trace["cpu"] == cpu
    time, kind, other = (trace[name][here].astype(np.int64) for name in ("time", "kind", "other"))
    is_switch = kind == SWITCH
    latest = np.maximum.accumulate(np.where(is_switch, np.arange(len(time)), -1))
    running = np.where(latest >= 0, other[np.maximum(latest, 0)], -1)
    steps = np.isin(kind, ENTRIES).astype(np.int64) - np.isin(kind, EXITS)
    depth = np.cumsum(steps)
    # A trace may begin inside of an interrupt.
    depth -= np.minimum.accumulate(np.minimum(depth, 0))
    own = (running[:-1] == thread) & (depth[:-1] == 0)
    so_far = np.concatenate([[0], np.cumsum(np.where(own, np.diff(time), 0))])
    at_begin, at_end = (_interpolated(time, so_far, own, moments) for moments in (begin, end))
    return at_end - at_begin


def _interpolated(
    time: NDArray[np.int64], so_far: NDArray[np.int64], own: NDArray[np.bool_], moments: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Read a sum that grows by one a unit where ``own``, in whole numbers: the counter exceeds what a float holds."""
    before = np.clip(np.searchsorted(time, moments, side="right") - 1, 0, len(time) - 1)
    grows = np.append(own, False)[before]
    return so_far[before] + np.where(grows, np.maximum(0, moments - time[before]), 0)


def _busy_since(jobs: RanJobs, urgent: NDArray[np.bool_], moment: int) -> int:
    """Give since when there was always a job to do among some."""
    while True:
        waiting = urgent & (jobs.release < moment) & (jobs.finish > moment)
        if not waiting.any():
            return moment
        moment = int(jobs.release[waiting].min())


def _charge(
    jobs: RanJobs, inside: NDArray[np.bool_], begin: int, end: int, charged: Mapping[str, int], tick_ns: int
) -> int:
    """Give the overheads that the analysis charges for a stretch: of its jobs, of all releases in it, of its ticks."""
    latency = charged.get("event_latency", 0)
    releases = int(np.count_nonzero((jobs.release >= begin - latency) & (jobs.release <= end)))
    switching = 2 * (charged.get("scheduling", 0) + charged.get("context_switch", 0))
    ticks = (end - begin + latency) // tick_ns + 1
    return (
        latency
        + int(np.count_nonzero(inside)) * switching
        + releases * charged.get("release", 0)
        + ticks * charged.get("tick", 0)
    )


def _known(bound_ns: int | None) -> int:
    if bound_ns is None:
        raise ValueError("a set that is schedulable has a bound for each task")
    return bound_ns


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3f} ms"
