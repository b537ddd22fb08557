"""A known disturbance, injected into every cell to test the probes themselves."""

from pydantic import Field, model_validator

from stealtime.vocabulary.quantities import DurationNs, format_duration
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import GuestExit


class KnownDisturbance(Table):
    """A thread of the agent that takes the measured CPU away at known times, to test the probes."""

    every_ns: DurationNs = Field(alias="every", gt=0)
    """The time from the start of one theft to the start of the next."""
    steal_ns: DurationNs = Field(alias="steal", gt=0)
    """How long each theft lasts."""
    exit: GuestExit | None = None
    """The VM exit that each theft begins with."""

    @model_validator(mode="after")
    def _leaves_something(self) -> "KnownDisturbance":
        if self.steal_ns >= self.every_ns:
            raise ValueError(
                f"{format_duration(self.steal_ns)} cannot be stolen every {format_duration(self.every_ns)}"
            )
        return self
