"""What travels between the controller, the workers and the process that measures on a host: data, no code.

Everything here is checked with pydantic on arrival. A worker is told the name of a function of this package and gets
an order as plain values; what it starts for that is always the same command.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stealtime.store.spread import EachHost, Shard

FORMAT = 1
"""Of orders and of what is said; two sides with different ones do not work together."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HostOrder(_Message):
    """One host's share of a campaign."""

    format: int = FORMAT
    stealtime_version: str
    """Of the controller; other versions measure with other programs."""
    fleet_id: str
    host: str
    """The name of its worker."""
    campaign: dict[str, Any]
    """Its document."""
    measured_cpu: int | None = None
    named_scenarios: tuple[str, ...] = ()
    is_kernel_named: bool = False
    spread: Shard | EachHost = Field(discriminator="kind")
    """Which part of the campaign, or all of it."""
    run_id: str | None = None
    """Of a run that this host has begun for this fleet and is to go on with."""
    have: tuple[str, ...] = ()
    """Trials that the controller has already."""
    inherited_cpus: tuple[int, ...] = ()
    """What the worker was started with, as it adds itself: it is bound to fewer, what it starts is not."""


class HostFacts(_Message):
    """What a worker says of its host before it gets an order."""

    format: int = FORMAT
    stealtime_version: str
    host: str
    identity: str
    """Of the machine, whatever its name is."""
    threads: int
    """Of the worker, for tasks."""
    is_quiet: bool
    """Whether it was started so that it can be silent."""
    silent_within_s: float
    """How long it is silent at most at a time."""
    control_cpus: tuple[int, ...]
    """Where the worker itself runs."""


class Said(_Message):
    """What the process that measures tells, one JSON line each.

    ``begin`` is answered with a line: only then a trial begins. Nothing is said until it has ended.
    """

    kind: Literal["waiting", "started", "begin", "end", "trial", "manifest", "failed", "remark", "finished"]
    words: str | None = None
    hint: str | None = None
    run_id: str | None = None
    trial_id: str | None = None
    planned: int | None = None
    """``started``: how many trials are still to be measured."""
    already: int | None = None
    """``started``: how many the run has."""
    files: dict[str, str] = Field(default_factory=dict)
    """By name, in base 64."""
    left: tuple[str, ...] = ()
    """``trial``: files that stay with the host."""
    exit_code: int | None = None
    """``finished``."""
    awake: int = 0
    """How often the worker was spoken to while this trial measured, or gave its sign of life; the worker adds it."""


def topic_of(fleet_id: str) -> str:
    """Name what workers say under, for those who listen to the scheduler."""
    return f"stealtime-{fleet_id}"
