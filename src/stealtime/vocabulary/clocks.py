"""The clocks of a machine: a reading of them, and the one that samples are counted in.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from pydantic import Field

from stealtime.vocabulary.readings import Facts, Model, Unsigned


class ClockReading(Model):
    """The clocks of a machine, read back to back."""

    tsc: Unsigned
    monotonic_raw_ns: Unsigned
    """``CLOCK_MONOTONIC_RAW``, of the same moment to within ``bracket_tsc``."""
    monotonic_ns: Unsigned
    """``CLOCK_MONOTONIC``, of the same moment to within ``bracket_tsc``."""
    bracket_tsc: Unsigned
    """How many cycles passed around the readings of the other two; ``tsc`` is in their middle."""


class ClockCheck(Model):
    """Two clocks over one stretch of time."""

    disagreement_ppm: float
    """How much faster the time-stamp counter ran than its stated rate."""
    error_ppm: float
    """What the reading itself can be wrong by."""
    limit_ppm: float
    """Over this the trial is invalid."""


class ClockRecord(Model):
    """The clock of a trial's samples and the proof that it can be trusted."""

    name: str
    """``tsc`` or ``monotonic``: what the samples are counted in."""
    units_per_s: float
    """Units of ``duration`` in a second."""
    tsc_hz: float
    """The rate of the time-stamp counter."""
    tsc_hz_source: str
    """Where ``tsc_hz`` comes from."""
    check: ClockCheck
    """The time-stamp counter against ``CLOCK_MONOTONIC_RAW`` over the trial."""
    facts: Facts = Field(default_factory=dict)
    """What the kernel kept its time with, read right after the measuring: a kernel that has just booted changes it.
    Empty in older runs."""
    start: ClockReading
    """The clocks at the start of the trial."""
    end: ClockReading
    """The clocks at the end of the trial."""
    start_realtime_ns: Unsigned
    """``CLOCK_REALTIME`` at the start, for people."""
    origin_units: Unsigned
    """The time-stamp counter (or, for ``monotonic``, that clock in ns) at the start of sample 0."""
