"""A known disturbance, injected into every cell to test the probes themselves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs, format_duration
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import GuestExit

if TYPE_CHECKING:
    from stealtime.campaigns.intention import Intention

_HIGHEST_PRIORITY = 99
"""Of SCHED_FIFO."""


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


def refuse_disturbance_without_room(intention: "Intention") -> Sequence[str]:
    """See that the thread that disturbs has a priority above the probes'.

    Raises:
        UsageError: There is none: the agent would refuse such trials (``crates/probe/src/request.rs``).
    """
    if intention.plan.campaign.injection is None:
        return ()
    for boot in intention.on_machines:
        if (priority := intention.priority_of(boot)) >= _HIGHEST_PRIORITY:
            raise UsageError(
                f"the injected disturbance needs a priority above that of the probes, and theirs is {priority} "
                f"({boot.scenario})",
                hint=f"measure with a priority of at most {_HIGHEST_PRIORITY - 1} (-p)",
            )
    return ()
