"""A load: what it is to do, and what it did. The twins of ``crates/wire/src/load.rs``."""

from typing import Annotated, Literal

from pydantic import Field

from stealtime.vocabulary.clocks import ClockReading
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Model


class CpuLoad(Model):
    """Endless arithmetic on what fits the first-level cache; work is counted in loops."""

    name: Literal["cpu"] = "cpu"


class MemoryLoad(Model):
    """Endless copying of a block that no cache holds; work is counted in bytes copied."""

    name: Literal["memory"] = "memory"
    block_bytes: int = Field(gt=0)


class LoadRequest(Model):
    """What to load a machine with."""

    kind: Annotated[CpuLoad | MemoryLoad, Field(discriminator="name")]
    cpus: list[int] = Field(default_factory=list)
    """Where the threads may run; none means wherever the agent may."""
    priority: int = Field(default=0, ge=0, le=99)
    """SCHED_FIFO priority; 0 is ordinary scheduling."""
    threads: int = Field(default=1, ge=1)
    on_ns: int | None = Field(default=None, gt=0)
    """How long the load is on before it pauses for ``off_ns``; without it the load never pauses."""
    off_ns: int | None = Field(default=None, gt=0)


class LoadOutcome(Model):
    """What came of a load, besides its table."""

    unit: Literal["loops", "bytes"]
    work: int
    on_ns: int
    """How long the load was on, all threads together."""
    rate_per_s: float
    """Work in a second that the load was on."""
    tsc_hz: float
    start: ClockReading
    end: ClockReading
    thread_ids: list[int]
    findings: list[Finding]
