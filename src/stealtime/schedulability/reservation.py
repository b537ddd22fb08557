"""A reservation of SCHED_DEADLINE: a runtime in every period, within a deadline (kernel: scheduler/sched-deadline.rst).

A thread that wakes with more runtime left than its bandwidth allows until its deadline begins a new period at once,
with a whole runtime (Abeni and Buttazzo, RTSS 1998); where the deadline is shorter than the period, it keeps its
deadline and loses runtime instead (Abeni, Lipari, Parri and Sun, 2015; ``update_dl_revised_wakeup()``). So:

- *From below*, from the fixed priorities of the same CPU. Let Q be the runtime, T the period, D the deadline, D = T.
  What a period gives until its end, be that its deadline or a wake-up that begins a new one, is at most Q/T of its
  length. In a window of length w, the period in which it begins gives x at most and takes x at least of w, the last one
  likewise y, and those between at most Q/T (w - x - y): w Q/T + 2 Q (1 - Q/T) in all, as x and y are at most Q. A task
  of that cost and period whose release may be late by 2 (T - Q) takes no less. Where D < T, and where each job of the
  thread finds its period over, periods begin T after another at least, and late by D - Q is enough.
- *Among each other*: with D = T for all on a whole CPU, a sum of Q/T of at most 1 is enough. Otherwise a thread that
  wakes within its period asks for up to Q/D of any window that ends with its deadline, which no demand of whole jobs
  has in it: then the sum of Q/D has to be at most 1.
- *From inside* its thread gets the runtime within the deadline of every period, if the reservations are met.

None of this holds for jobs that wait inside of themselves: the runtime is not used up meanwhile, as cost would be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, WithJsonSchema

from stealtime.schedulability.longest import LONGEST_NS, not_longer
from stealtime.vocabulary.quantities import format_duration, parse_duration_ns

ROOT_DOMAIN = (
    "SCHED_DEADLINE guarantees deadlines on a root domain of one CPU, an exclusive cpuset that has the thread; "
    "on one of several CPUs it guarantees bounded tardiness only, and this analysis does not hold."
)


@dataclass(frozen=True)
class Reservation:
    """In ns."""

    runtime_ns: int
    period_ns: int
    deadline_ns: int

    @property
    def density(self) -> Fraction:
        return Fraction(self.runtime_ns, self.deadline_ns)

    def holds_whole_jobs(self, cost_ns: int, period_ns: int, jitter_ns: int) -> bool:
        """Tell whether each job of a task, all overheads in its cost, has a period of the reservation for itself.

        Its next job is released when that period has passed, and so with a whole runtime and a deadline from then on.
        """
        return cost_ns <= self.runtime_ns and period_ns - jitter_ns >= self.period_ns

    def as_interference(self, holds_whole_jobs: bool) -> tuple[int, int, int, int, int]:
        """Cost, period, deadline, jitter and blocking of the task that takes as much from those below."""
        wakes_anew = self.deadline_ns == self.period_ns and not holds_whole_jobs
        late_ns = 2 * (self.period_ns - self.runtime_ns) if wakes_anew else self.deadline_ns - self.runtime_ns
        return self.runtime_ns, self.period_ns, LONGEST_NS, late_ns, 0

    @property
    def as_demand(self) -> tuple[int, int, int, int, int]:
        """The same among other reservations, under EDF."""
        return self.runtime_ns, self.period_ns, self.deadline_ns, 0, 0


class ReservedTask(Protocol):
    """What is looked at of a task."""

    @property
    def cost(self) -> int: ...

    @property
    def period(self) -> int: ...

    @property
    def jitter(self) -> int | None: ...


@dataclass(frozen=True)
class Charged:
    """The overheads in ns that jobs under reservations meet, as the analysis charges them by job."""

    overheads: Mapping[str, int]
    tick_period_ns: int
    interrupts: Literal["here", "on another CPU"]

    def late_ns(self, task: ReservedTask) -> int:
        """Give the most that a job is ready after its arrival."""
        late = ["event_latency", "release", *(("inter_processor_interrupt",) if self._elsewhere else ())]
        return (task.jitter or 0) + sum(self.overheads.get(name, 0) for name in late)

    def holds_whole_jobs(self, task: ReservedTask, server: Reservation, tasks: Sequence[ReservedTask]) -> bool:
        """Tell whether each job has a period of the reservation for itself; what the kernel takes uses it up, too.

        Args:
            task: That has the reservation.
            server: It.
            tasks: All of the CPU, whose releases interrupt it.
        """
        get = self.overheads.get
        switches = 2 * (get("scheduling", 0) + get("context_switch", 0)) + get("cache_preemption", 0)
        window_ns = server.deadline_ns + get("event_latency", 0)
        ticks = -(-window_ns // self.tick_period_ns) * get("tick", 0) if self.tick_period_ns else 0
        arrivals = 0 if self._elsewhere else sum(-(-(window_ns + (one.jitter or 0)) // one.period) for one in tasks)
        cost = task.cost + switches + ticks + arrivals * get("release", 0)
        return server.holds_whole_jobs(cost, task.period, self.late_ns(task))

    def releases_of(self, tasks: Sequence[ReservedTask]) -> list[tuple[int, int, int, int, int]]:
        """Give tasks that take nothing from those above but the interrupts of their releases, if these take time."""
        if self._elsewhere or not self.overheads.get("release"):
            return []
        return [(1, one.period, LONGEST_NS, one.jitter or 0, 0) for one in tasks]

    @property
    def _elsewhere(self) -> bool:
        return self.interrupts != "here"


def read_reservation(text: str) -> Reservation:
    """Read ``RUNTIME/PERIOD`` or ``RUNTIME/PERIOD/DEADLINE``.

    Raises:
        ValueError: It is none, or not runtime <= deadline <= period.
    """
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise ValueError(f"{text!r} is no reservation such as 4ms/10ms or 4ms/10ms/8ms")
    runtime, period, *deadlines = (not_longer(parse_duration_ns(part)) for part in parts)
    deadline = deadlines[0] if deadlines else period
    if not runtime <= deadline <= period:
        raise ValueError(
            f"{text!r} has a runtime of {format_duration(runtime)} within {format_duration(deadline)} of every "
            f"{format_duration(period)}: it must be at most the deadline, and that at most the period"
        )
    return Reservation(runtime, period, deadline)


def _checked(text: str) -> str:
    read_reservation(text)
    return text


ReservationText = Annotated[
    str, AfterValidator(_checked), WithJsonSchema({"type": "string", "examples": ["4ms/10ms", "4ms/10ms/8ms"]})
]
"""A field that is written ``"4ms/10ms"``."""
