"""The figures of a run, as models: what ``stealtime show --json`` prints."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from stealtime.wire.message import Facts

SCHEMA_VERSION = 1
"""Of :class:`RunSummary`; rises when an older reader could misunderstand a newer document."""


class Figures(BaseModel):
    """A part of the document: nothing unknown is accepted and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stats(Figures):
    """Statistics of one trial, or of all samples of a cell's valid repetitions together.

    A percentile is the exact nearest rank. Times are in ns; ``max_at_s`` counts from the start of sample 0.
    """

    count: int
    floor_ns: float
    """The cheapest sample possible there: the smaller of the calibrated floor and the minimum."""
    min_ns: float
    mean_ns: float
    sd_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    p9999_ns: float
    p99999_ns: float
    max_ns: float
    max_at_s: float
    max_overhead_ns: float
    unresolved: list[str]
    """Percentiles with less than one sample beyond them, by key (``p9999_ns``); their value is then the maximum."""


class Period(Figures):
    """A periodic cause of lost time, found from the samples alone."""

    period_s: float
    rate_hz: float
    cost_p50_ns: float
    """Median overhead of the samples in phase less that of ordinary samples."""
    cost_p90_ns: float
    events: int
    coverage: float
    """Share of the cycles in which it was seen."""
    lost_share: float
    """Share of all time lost over the floor."""
    level_ns: float
    """Overhead above which samples were looked at when it was found."""
    repetition: int
    """The trial that it was found in: the first valid one."""


class Clock(Figures):
    """What the samples of a cell are counted in, and how far that can be trusted."""

    name: str
    units_per_s: float
    tsc_hz: float
    source: str
    """Where ``tsc_hz`` comes from."""
    worst_disagreement_ppm: float
    """Against CLOCK_MONOTONIC_RAW, the largest of all trials in absolute value, signed."""
    alignment_error_bound_ns: float | None
    """How far host and machine can be apart on one time line; None where no clocks were exchanged."""


class NeighbourFigures(Figures):
    """What a neighbour achieved during one trial."""

    name: str
    kind: Literal["machine", "process"]
    platform: str
    load: Literal["cpu", "memory"]
    unit: Literal["loops", "bytes"] | None
    """None if it died."""
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


class PlacementFigures(Figures):
    """Where a scenario put the machine on the host."""

    vcpu_cpus: list[list[int]]
    """The CPUs that each virtual CPU may run on; the last one is measured."""
    emulator_cpus: list[int]
    quota_percent: float | None
    """Of one CPU; None is no limit."""
    weight: int | None


class TrialSummary(Figures):
    """One execution of a cell."""

    repetition: int
    valid: bool
    reasons: list[str]
    stats: Stats | None
    folder: str
    neighbours: list[NeighbourFigures] = Field(default_factory=list)
    trace: TraceFigures | None = None
    """None if nothing was traced."""


class CellSummary(Figures):
    """A cell: all its repetitions."""

    platform: str
    scenario: str
    probe: Literal["tick", "switch", "wakeup"]
    parameters: dict[str, JsonValue]
    valid: bool
    """Whether all repetitions may be used."""
    reasons: list[str]
    """Why repetitions may not be used, or failed."""
    limits: list[str]
    """What limits the result."""
    clock: Clock | None
    stats: Stats | None
    """Of the valid repetitions together; of all measured ones where none is valid; None where nothing was measured."""
    periods: list[Period]
    """Probe ``tick`` only."""
    trials: list[TrialSummary]
    traced: bool = False
    """Whether host and machine were traced meanwhile, which costs something."""
    scaled: str | None = None
    """How the scenario's "all" was scaled from the paper's four CPUs to those of the host; None where it was not."""
    rt_pause_ns: float | None = None
    """How long RT throttling of the machine's own kernel may stop the probe in every second; None where it does not."""
    placement: PlacementFigures | None = None
    """None where nothing was measured."""

    @property
    def key(self) -> tuple[str, str, str, tuple[tuple[str, str], ...], bool]:
        """What makes two cells of different runs the same cell."""
        parameters = tuple(sorted((name, repr(value)) for name, value in self.parameters.items()))
        return (self.platform, self.scenario, self.probe, parameters, self.traced)

    def overhead_beyond_ns(self, threshold_ns: int | None) -> float | None:
        """Give the longest overhead of a valid cell if it is longer than ``threshold_ns``; None accepts each."""
        if threshold_ns is None or not self.valid or self.stats is None:
            return None
        return self.stats.max_overhead_ns if self.stats.max_overhead_ns > threshold_ns else None


class RunSummary(Figures):
    """A run in figures."""

    schema_version: Literal[1] = 1
    run_id: str
    created_at: datetime
    campaign: str
    host: Facts
    cells: list[CellSummary]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Scenarios of the campaign that cannot be honest on this host, and why."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """What an alias of the campaign, such as ``emulated``, stands for on this host."""

    @property
    def plain_cells(self) -> list[CellSummary]:
        """The cells to compare platforms by: a traced one only where it was not measured untraced as well."""
        untraced = {cell.key[:4] for cell in self.cells if not cell.traced}
        return [cell for cell in self.cells if not cell.traced or cell.key[:4] not in untraced]
