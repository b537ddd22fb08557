"""Two machines on one time line: the offset between their clocks, with a bound on its error.

The host reads its ``CLOCK_MONOTONIC_RAW`` before it asks and after it was answered; the machine under test reads its
clocks somewhere in between (Cristian, *Probabilistic clock synchronization*, 1989; NTP uses the same four stamps). So
the true offset lies within half a round trip of the middle, whatever the two directions cost. The exchange with the
shortest round trip gives the tightest bound; averaging would only mix worse ones in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from stealtime.vocabulary.clocks import ClockReading


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """One question and its answer."""

    host_before_ns: int
    """Host ``CLOCK_MONOTONIC_RAW`` before the question was written."""
    host_after_ns: int
    """Host ``CLOCK_MONOTONIC_RAW`` after the answer was read."""
    reading: ClockReading
    """The machine's clocks; all of them were read between the two."""

    @property
    def round_trip_ns(self) -> int:
        """How long the question and its answer took."""
        return self.host_after_ns - self.host_before_ns


class Alignment(BaseModel):
    """Where the clocks of a machine under test stood at one moment of the host."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host_monotonic_raw_ns: int
    """The moment: the host's ``CLOCK_MONOTONIC_RAW`` in the middle of the best exchange."""
    machine_monotonic_raw_ns: int
    """The machine's ``CLOCK_MONOTONIC_RAW`` at that moment, give or take ``error_ns``."""
    machine_monotonic_ns: int | None = None
    """The machine's ``CLOCK_MONOTONIC`` at that moment, give or take ``error_ns``; None in older runs."""
    machine_tsc: int
    """The machine's time-stamp counter at that moment, give or take ``error_ns``."""
    machine_minus_host_ns: int
    """What to subtract from a ``CLOCK_MONOTONIC_RAW`` of the machine to get the host's."""
    error_ns: int
    """Half the round trip, rounded up: a bound, not an estimate. The time between the readings of the machine's
    clocks (``bracket_tsc``) lies inside the round trip and so inside the bound."""
    exchanges: int
    """How many exchanges the best one was chosen from."""
    bracket_tsc: int
    """Cycles between the machine's two clock readings in the best exchange."""


def align(exchanges: Sequence[ClockExchange]) -> Alignment:
    """Find the offset from the exchange with the shortest round trip.

    Args:
        exchanges: At least one.

    Raises:
        ValueError: There is no exchange, or one was answered before it was asked.
    """
    if not exchanges:
        raise ValueError("no clock exchange to align by")
    best = min(exchanges, key=lambda exchange: exchange.round_trip_ns)
    if best.round_trip_ns < 0:
        raise ValueError(f"a clock exchange took {best.round_trip_ns} ns")
    middle_ns = best.host_before_ns + best.round_trip_ns // 2
    return Alignment(
        host_monotonic_raw_ns=middle_ns,
        machine_monotonic_raw_ns=best.reading.monotonic_raw_ns,
        machine_monotonic_ns=best.reading.monotonic_ns,
        machine_tsc=best.reading.tsc,
        machine_minus_host_ns=best.reading.monotonic_raw_ns - middle_ns,
        error_ns=(best.round_trip_ns + 1) // 2,
        exchanges=len(exchanges),
        bracket_tsc=best.reading.bracket_tsc,
    )
