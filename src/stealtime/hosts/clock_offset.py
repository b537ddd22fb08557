"""Moments of another host's clock on our own: the offset of its ``CLOCK_MONOTONIC``, with a bound on the error. Pure.

As in ``vocabulary.alignment``: the other host reads its clock between our two readings, so the offset is known to half
the round trip, and the shortest round trip gives the tightest bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_RATES_APART = 1e-3
"""NTP slews a clock by at most 500 ppm (adjtimex(2)), and each of the two may be slewed."""


@dataclass(frozen=True)
class Moment:
    """A moment in nanoseconds of our monotonic clock."""

    at_ns: int
    error_ns: int = 0
    """How far it can be off, where another host's clock told it."""

    def may_follow(self, other: "Moment") -> bool:
        """Tell whether it was after another moment, as far as clocks can tell."""
        return self.at_ns + self.error_ns > other.at_ns - other.error_ns


@dataclass(frozen=True)
class Exchange:
    """One question for the time and its answer, in nanoseconds of ``CLOCK_MONOTONIC``."""

    before_ns: int
    """Ours, before it was asked."""
    after_ns: int
    """Ours, when it was answered."""
    theirs_ns: int

    @property
    def round_trip_ns(self) -> int:
        return self.after_ns - self.before_ns


@dataclass(frozen=True)
class ClockOffset:
    """Where another host's clock stood."""

    at_ns: int
    """When, by our clock."""
    theirs_minus_ours_ns: int
    error_ns: int
    """A bound, not an estimate."""
    rates_apart: float = _RATES_APART
    """How much faster one of the clocks may run than the other, as a share."""

    @classmethod
    def of(cls, exchanges: Sequence[Exchange]) -> "ClockOffset":
        """Take the exchange with the shortest round trip; there must be one."""
        best = min(exchanges, key=lambda exchange: exchange.round_trip_ns)
        middle_ns = best.before_ns + best.round_trip_ns // 2
        return cls(middle_ns, best.theirs_ns - middle_ns, (best.round_trip_ns + 1) // 2)

    def ours_ns(self, theirs_ns: int) -> int:
        return theirs_ns - self.theirs_minus_ours_ns

    def theirs_ns(self, ours_ns: int) -> int:
        return ours_ns + self.theirs_minus_ours_ns

    def error_at_ns(self, ours_ns: int) -> int:
        """Give the bound for a moment: the clocks may have run apart between it and the exchange."""
        return self.error_ns + round(self.rates_apart * abs(ours_ns - self.at_ns))

    def moment(self, theirs_ns: int) -> Moment:
        """Put a moment of their clock on ours; asked for soon after it, little is lost to clocks that run apart."""
        at_ns = self.ours_ns(theirs_ns)
        return Moment(at_ns, self.error_at_ns(at_ns))

    def surely_after(self, ours_ns: int) -> int:
        """Give the earliest moment of their clock that is surely not before a moment of ours."""
        return self.theirs_ns(ours_ns) + self.error_at_ns(ours_ns)


SAME_CLOCK = ClockOffset(0, 0, 0, rates_apart=0.0)
"""That of a host on this machine."""
