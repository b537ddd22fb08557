"""A reservation of SCHED_DEADLINE: a runtime in every period, within a deadline (kernel: scheduler/sched-deadline.rst).

Seen from below, from the fixed priorities of the same CPU, it takes no more than a task of that cost and period whose
release may be late by period - runtime: it may have run at the end of one period, and again at the begin of the next
one, as a thread that sleeps in between may start a new period when it wakes. Seen from inside, its thread gets the
runtime within the deadline of every period, if the demand of all reservations is met.
"""

from dataclasses import dataclass
from typing import Annotated

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
    def as_interference(self) -> tuple[int, int, int, int, int]:
        """Cost, period, deadline, jitter and blocking of the task that takes as much from those below."""
        return self.runtime_ns, self.period_ns, LONGEST_NS, self.period_ns - self.runtime_ns, 0

    def response_of(self, cost_ns: int, period_ns: int, jitter_ns: int) -> int | None:
        """Bound the response of a task that its runtime is enough for; None where that does not tell.

        Its next job is released when the reservation's deadline has passed, and so with a whole runtime and a deadline
        from then on.
        """
        fits = cost_ns <= self.runtime_ns and period_ns - jitter_ns >= self.period_ns
        return jitter_ns + self.deadline_ns if fits else None

    @property
    def as_demand(self) -> tuple[int, int, int, int, int]:
        """The same among other reservations, under EDF."""
        return self.runtime_ns, self.period_ns, self.deadline_ns, 0, 0


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
