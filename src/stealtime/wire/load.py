"""A load: what it is to do, and what it did.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Annotated, Literal

from pydantic import Field

from stealtime.vocabulary.clocks import ClockReading
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Model, Unsigned


class LoadStarted(Model):
    """The answer to ``StartLoad``."""

    type: Literal["load_started"] = "load_started"
    trial: Unsigned
    thread_ids: list[Unsigned]
    """The threads that load."""


WorkUnit = Literal["loops", "bytes"]
"""What the work of a load is counted in."""


class LoadOutcome(Model):
    """What came of a load, besides its table."""

    unit: WorkUnit
    work: Unsigned
    on_ns: Unsigned
    """How long the load was on, all threads together."""
    rate_per_s: float
    """Work in a second that the load was on."""
    tsc_hz: float
    """The rate of the counter in the table."""
    start: ClockReading
    """The clocks just before the load began."""
    end: ClockReading
    """The clocks just after it ended."""
    thread_ids: list[Unsigned]
    """The threads that loaded."""
    findings: list[Finding]
    """What a reader must know."""


class LoadDone(Model):
    """The table of ``StopLoad`` is sent."""

    type: Literal["load_done"] = "load_done"
    trial: Unsigned
    outcome: LoadOutcome
    """What came of it."""


class CpuLoad(Model):
    """Endless arithmetic on what fits the first-level cache; work is counted in loops."""

    name: Literal["cpu"] = "cpu"


class MemoryLoad(Model):
    """Endless copying of a block that no cache holds; work is counted in bytes copied."""

    name: Literal["memory"] = "memory"
    block_bytes: int = Field(ge=1)
    """The size of the block."""


Load = Annotated[CpuLoad | MemoryLoad, Field(discriminator="name")]
"""The kinds of load."""


class LoadRequest(Model):
    """What to load a machine with."""

    kind: Load
    """The kind of work."""
    cpus: list[Unsigned] = Field(default_factory=list)
    """Where the threads may run; none means wherever the agent may."""
    priority: int = Field(default=0, ge=0, le=99)
    """SCHED_FIFO priority, 1..=99; 0 is ordinary scheduling."""
    threads: int = Field(default=1, ge=1)
    """How many threads, each doing the same."""
    on_ns: int | None = Field(default=None, ge=1)
    """How long the load is on before it pauses for ``off_ns``; without it the load never pauses."""
    off_ns: int | None = Field(default=None, ge=1)
    """How long the load pauses."""


class StartLoad(Model):
    """Load the machine, until told to stop."""

    type: Literal["start_load"] = "start_load"
    trial: Unsigned
    """The trial that it is for; comes back in every answer."""
    load: LoadRequest


class StopLoad(Model):
    """Stop the load and send the table ``load``."""

    type: Literal["stop_load"] = "stop_load"
    trial: Unsigned
