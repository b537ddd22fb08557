"""The circumstances of a cell: parts of its figures that every study has."""

from typing import Literal

from pydantic import Field

from stealtime.report.cells.figures import Figures
from stealtime.vocabulary.clock_agreement import ClockAgreement


class Clock(Figures):
    """What the samples of a cell are counted in, and how far that can be trusted."""

    name: str
    units_per_s: float
    tsc_hz: float
    source: str
    """Where ``tsc_hz`` comes from."""
    worst_disagreement_ppm: float
    """Against CLOCK_MONOTONIC_RAW, the largest of all trials in absolute value, signed."""
    kernel: ClockAgreement | None
    """The worst of all trials; None where none of them says."""
    host: ClockAgreement | None
    """The same of the comparison with the host's clock."""
    alignment_error_bound_ns: float | None
    """How far host and machine can be apart on one time line; None where no clocks were exchanged."""


class NeighbourFigures(Figures):
    """What a neighbour achieved during one trial."""

    name: str
    kind: Literal["machine", "process"]
    platform: str
    load: Literal["cpu", "memory", "same work"]
    """A load of its own, or what the machine under test did."""
    unit: Literal["loops", "bytes"] | None
    """None if it died, and of the same work, which has no rate."""
    rate_per_s: float | None
    """Of its units, in a second that its load was on."""
    on_s: float | None


class TraceFigures(Figures):
    """How much was recorded of a traced trial; spikes near a loss cannot be judged."""

    host_events: int | None
    """None if the host was not traced."""
    host_lost: int | None
    machine_events: int | None
    """None if the machine has no trace of its own, as natively."""
    machine_lost: int | None


class HypervisorFigures(Figures):
    """How often and how long the hypervisor was entered, of all virtual CPUs of a machine together."""

    vcpus: int
    counted_s: float
    """Between the two readings: from before the trial's request until the agent began to send its tables."""
    per_s: dict[str, float]
    """How often in a second, by KVM's name of the counter: ``exits``, ``halt_exits`` ..."""
    time_share: dict[str, float]
    """``halt_poll_fail``, ``halt_wait`` ...: of the time of all virtual CPUs, 0 to 1; beyond it where a wait began
    before the first reading."""
    polls_won_share: float | None
    """Of KVM's polls for the end of a halt, those that saw it; None where it polled for none."""


class PlacementFigures(Figures):
    """Where a scenario put the machine on the host."""

    vcpu_cpus: list[list[int]]
    """The CPUs that each virtual CPU may run on; the last one is measured."""
    emulator_cpus: list[int]
    quota_percent: float | None
    """Of one CPU; None is no limit."""
    weight: int | None


class MeasuredTrial(Figures):
    """One execution of a cell."""

    repetition: int
    valid: bool
    """Whether it may be used (``stealtime.campaigns.validity``)."""
    reasons: list[str]
    """Why not, or why it failed."""
    is_measured: bool = True
    """Whether it has a result, valid or not; else it failed."""
    too_short: str | None = None
    """How long it watched, of what was asked for, and why no longer; None where it watched for as long as asked."""
    not_as_asked: list[str] = Field(default_factory=list)
    """In what else it is not what was asked for, though it may be used as what it is."""
    neighbours: list[NeighbourFigures] = Field(default_factory=list)
    trace: TraceFigures | None = None
    """None if nothing was traced."""
    hypervisor: HypervisorFigures | None = None
    """None where no hypervisor was asked, or had nothing to tell."""
