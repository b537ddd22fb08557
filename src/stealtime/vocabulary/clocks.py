"""The clocks of a machine: a reading of them, and the one that samples are counted in."""

from pydantic import Field

from stealtime.vocabulary.readings import Facts, Model


class ClockReading(Model):
    """The clocks of a machine, read back to back."""

    tsc: int
    monotonic_raw_ns: int
    monotonic_ns: int
    bracket_tsc: int
    """Cycles that passed around the readings of the other two; ``tsc`` is in their middle."""


class ClockCheck(Model):
    """The time-stamp counter against ``CLOCK_MONOTONIC_RAW`` over one trial."""

    disagreement_ppm: float
    error_ppm: float
    limit_ppm: float


class ClockRecord(Model):
    """The clock of a trial's samples and the proof that it can be trusted."""

    name: str
    units_per_s: float
    tsc_hz: float
    tsc_hz_source: str
    check: ClockCheck
    facts: Facts = Field(default_factory=dict)
    """``clocksource`` ...: what the kernel kept its time with, read right after the measuring. Empty in older runs."""
    start: ClockReading
    end: ClockReading
    start_realtime_ns: int
    origin_units: int
