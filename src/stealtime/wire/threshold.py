"""A sample that is too long: what to do at it, and which it was.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from pydantic import Field

from stealtime.vocabulary.readings import Model, Unsigned


class OnThreshold(Model):
    """What happens at the first sample that exceeds a threshold: the machine's own recording stops there."""

    overhead_ns: int = Field(ge=1)
    """By how much a sample must exceed the calibrated floor of its probe, or 0 where that has none."""
    stop: bool
    """Whether the trial ends there; else it goes on, and further such samples are counted."""


class ThresholdHit(Model):
    """The first sample that exceeded a threshold."""

    index: Unsigned
    """Of the sample."""
    duration_units: Unsigned
    """What it lasted, in units of the samples."""
    end_tsc: Unsigned
    """The time-stamp counter just after it."""
    samples_over: Unsigned
    """How many samples exceeded the threshold, this one among them."""
