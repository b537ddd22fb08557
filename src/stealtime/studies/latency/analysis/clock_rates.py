"""Whether the repetitions of a cell are counted by one clock, and so can be put together."""

from collections.abc import Sequence

from stealtime.store.model import TrialRecord
from stealtime.vocabulary.clocks import ClockRecord

_RATE_SPREAD_LIMIT = 1e-4
"""Clock rates that differ by more than this share (100 ppm) are not the same clock read twice."""


def different_rates(units_per_s: Sequence[float]) -> str | None:
    """Say that repetitions are counted by clocks of different rates; None where they are not."""
    if not units_per_s or max(units_per_s) <= min(units_per_s) * (1 + _RATE_SPREAD_LIMIT):
        return None
    return f"repetitions with clock rates from {min(units_per_s):.0f} to {max(units_per_s):.0f} Hz cannot be pooled"


def rate_of(clock: ClockRecord) -> float:
    """Give how many units a second a trial's clock counted.

    A rate that was read in some 50 ms is wrong by 100 ppm where the machine stood still for 5 us at one of its ends.
    The whole trial, held against another clock, tells it better.
    """
    # Only the time-stamp counter has a rate that is measured.
    wrong_ppm = clock.check.disagreement_ppm if clock.name == "tsc" else 0.0
    return clock.units_per_s * (1.0 + wrong_ppm * 1e-6)


def unusable(records: Sequence[TrialRecord]) -> list[list[str]]:
    """Say of each measured trial of a cell why it may not be used: those of different clocks are no one series."""
    message = different_rates([rate_of(one.outcome.clock) for one in records if one.outcome is not None])
    return [[] if message is None else [message]] * len(records)
