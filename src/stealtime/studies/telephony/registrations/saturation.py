"""The highest rate of registrations or sessions that a server bears, searched as RFC 7502 (section 4) does it.

RFC 7501 calls them the *registration rate* and the *session establishment rate*: the maximum of the attempt rate at
which every attempt succeeds. An attempt fails here if it is not answered at all, refused, or answered only after half a
second (``ANSWERED_BY_NS``). Over UDP a client has sent it again by then, which a server at its limit provokes; over TCP
nothing is sent again, and a server could put off its answers until the try is over. A try that failed by the generator
or by the network says nothing for the server: where the lowest rate that failed did so, the server bears at least what
was found. What was found is held for longer before it counts: a server that falls behind by little shows it late. Pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from stealtime.studies.telephony.generators.limit import OFFERED_SHARE_MIN, Limit
from stealtime.studies.telephony.lengths import ANSWERED_BY_NS, HELD_TRIES

STEPS_MAX = 14


@dataclass(frozen=True)
class Attempt:
    """What became of one try of a rate."""

    rate_per_s: float
    duration_s: float
    """For how long it was to be offered."""
    offered_per_s: float
    """What SIPp sent."""
    sent: int
    acknowledged: int
    retransmissions: int
    late: int = 0
    """Acknowledged after ``ANSWERED_BY_NS``, counted from the first copy of the request; over UDP also among the
    retransmissions."""
    limit: Limit | None = None
    """What kept the rate from being borne; None: nobody looked."""

    @property
    def failure(self) -> str | None:
        """Why the rate was not borne; None if it was."""
        # First: what comes late, or not at all, may then be SIPp's doing.
        if self.offered_per_s < OFFERED_SHARE_MIN * self.rate_per_s:
            return f"only {self.offered_per_s:.0f} per second could be offered"
        if self.acknowledged < self.sent:
            return f"{self.sent - self.acknowledged} of {self.sent} not acknowledged"
        if self.retransmissions:
            return f"{self.retransmissions} retransmissions"
        if self.late:
            return f"{self.late} of {self.sent} acknowledged after more than {ANSWERED_BY_NS / 1e6:g} ms"
        return None

    @property
    def limited_elsewhere(self) -> Literal["generator", "network"] | None:
        """By what else than the server it failed; None where it did not, or nobody can tell."""
        if self.failure is None:
            return None
        if self.limit is not None:
            return self.limit.by if self.limit.by in ("generator", "network") else None
        return "generator" if self.offered_per_s < OFFERED_SHARE_MIN * self.rate_per_s else None


@dataclass(frozen=True)
class Saturation:
    """What a search found."""

    rate_per_s: float
    """The highest rate that was borne; 0 where not even the lowest one was."""
    attempts: tuple[Attempt, ...]
    is_bounded: bool
    """Whether a higher rate was seen to fail, and neither by the generator nor by the network."""
    unbounded_because: str | None = None
    """What else than the server the lowest rate that failed did so by; None where it was not that, or none failed."""


def search(
    attempt: Callable[[float, float], Attempt],
    *,
    try_s: float,
    first_per_s: float,
    most_per_s: float,
    resolution: float,
) -> Saturation:
    """Double the rate until it fails, then halve the interval in between; lower what was found until it is held.

    A rate fails that failed twice: one lost registration in thousands is often the host's doing, which shares its CPUs
    with server and phones.

    Args:
        attempt: Tries a rate, for so many seconds.
        try_s: How long a try lasts; the last ones last :data:`HELD_TRIES` times as long.
        first_per_s: The first rate; halved while it fails.
        most_per_s: No higher rate is tried.
        resolution: The interval ends where its upper end is at most so many times the lower one, as 1.1.
    """
    attempts: list[Attempt] = []

    def is_borne(rate: float, duration_s: float) -> bool:
        attempts.append(attempt(rate, duration_s))
        if attempts[-1].failure is not None:
            attempts.append(attempt(rate, duration_s))
        return attempts[-1].failure is None

    borne, failed = 0.0, float("inf")
    rate = min(first_per_s, most_per_s)
    for _ in range(STEPS_MAX):
        if is_borne(rate, try_s):
            borne = rate
        else:
            failed = rate
        if borne >= most_per_s or (borne > 0 and failed / borne <= resolution) or failed <= 1:
            break
        rate = _next(borne, failed, most_per_s)
    steps = STEPS_MAX
    while borne and not is_borne(borne, HELD_TRIES * try_s):
        failed, steps = borne, steps - 1
        borne = borne / resolution if steps else 0.0
    elsewhere = _elsewhere([one for one in attempts if one.rate_per_s == failed])
    return Saturation(borne, tuple(attempts), failed < float("inf") and elsewhere is None, elsewhere)


def _elsewhere(tries: Sequence[Attempt]) -> str | None:
    """Say by what else than the server tries of a rate failed, if any of them did: then it did not fail twice by it."""
    for one in tries:
        if (by := one.limited_elsewhere) is not None:
            why = one.failure if one.limit is None else one.limit.sentence
            return f"{one.rate_per_s:.0f} per second failed by the {by}: {why}"
    return None


def _next(borne: float, failed: float, most_per_s: float) -> float:
    if failed == float("inf"):
        return min(2 * borne, most_per_s)
    if borne == 0:
        return max(failed / 2, 1.0)
    # The geometric middle: the resolution is a ratio.
    return float((borne * failed) ** 0.5)
