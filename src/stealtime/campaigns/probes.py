"""The probes of a campaign: each table ``[[probes]]`` of the file is a few cells."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from stealtime.vocabulary.quantities import DurationNs, format_duration
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import GuestExit

Tracing = Literal["off", "on", "both"]
"""Whether a cell is measured with tracing; ``both`` makes two cells that are interleaved, to see what looking costs."""

ThreadCounts = Annotated[list[Annotated[int, Field(ge=2, le=1000)]], Field(min_length=1)]


class KnownDisturbance(Table):
    """A thread of the agent's own that takes the measured CPU away at known times, to test the instrument itself."""

    every_ns: DurationNs = Field(alias="every", gt=0)
    """From the start of one theft to the start of the next."""
    steal_ns: DurationNs = Field(alias="steal", gt=0)
    """How long each theft lasts."""
    exit: GuestExit | None = None
    """What each theft begins with: one exit of a virtual machine to its hypervisor, of a known kind."""

    @model_validator(mode="after")
    def _leaves_something(self) -> "KnownDisturbance":
        if self.steal_ns >= self.every_ns:
            raise ValueError(
                f"{format_duration(self.steal_ns)} cannot be stolen every {format_duration(self.every_ns)}"
            )
        return self


class _Probe(Table):
    duration_ns: DurationNs = Field(alias="duration")
    """How long one trial measures."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Without it, as the campaign says."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Give the parameters of each cell of this probe, as ``store.model.Cell`` names them."""
        raise NotImplementedError


class TickCells(_Probe):
    """``tick``: a busy loop back to back."""

    probe: Literal["tick"]
    """The name of the probe."""
    loop_ns: DurationNs = Field(default=68_000, alias="loop")
    """The length of the loop on this host, natively. 68 us is the paper's: short enough to see every tick apart."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """One cell."""
        return [{"loop_ns": self.loop_ns}]


class SwitchCells(_Probe):
    """``switch``: threads of one priority yield to each other."""

    probe: Literal["switch"]
    """The name of the probe."""
    threads: ThreadCounts = Field(default=[2, 10, 100, 1000])
    """How many threads yield to each other; each number is a cell."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """One cell for each number of threads."""
        return [{"threads": threads} for threads in self.threads]


class WakeupCells(_Probe):
    """``wakeup``: absolute sleeps."""

    probe: Literal["wakeup"]
    """The name of the probe."""
    interval_ns: DurationNs = Field(default=1_000_000, alias="interval")
    """From one wake-up to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """One cell."""
        return [{"interval_ns": self.interval_ns}]


ProbeCells = Annotated[TickCells | SwitchCells | WakeupCells, Field(discriminator="probe")]

PROBES: dict[str, type[TickCells | SwitchCells | WakeupCells]] = {
    "tick": TickCells,
    "switch": SwitchCells,
    "wakeup": WakeupCells,
}
