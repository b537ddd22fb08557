"""The figures of a run, as models: what ``stealtime show --json`` prints."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from stealtime.report import summary as report_summary
from stealtime.report.cells.figures import Figures
from stealtime.report.cells.model import Bounded, CellFigures, Watched
from stealtime.report.cells.surroundings import MeasuredTrial
from stealtime.report.notation import three_digits
from stealtime.studies.latency.probes.wakeup import WakeupParameters

LimitName = Literal["RT throttling", "fair server"]
PAUSE_SHARE = 0.5
"""From this share of it on, a sample may be a pause of a limit: one that begins late in its period lasts less."""


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


class HeldBack(Figures):
    """Samples that the kernel's limit on real-time threads explains: they count for no maximum and for no ratio."""

    cause: LimitName
    pause_ns: float
    """How long it may stop the probe in every period."""
    period_ns: float = 1e9
    unseen: str | None = None
    """Why nothing told when it did so, and nothing is explained; None where that was seen."""
    count: int
    longest_ns: float | None
    """Overhead of the longest explained one; None where there is none."""
    unproven: int = 0
    """Samples as long as a pause of which nothing proves that they are one: they count as any other."""
    rest_max_ns: float | None
    """The longest of the other samples, or the floor and what is not proven of an explained one."""
    rest_max_overhead_ns: float | None
    rest_max_at_s: float | None
    """From the start of sample 0 of its repetition."""
    rest_paused_ns: float = 0.0
    """How much of it was spent in a pause all the same: of a sample that is too long to be one, or one too many."""

    @property
    def is_in_rest(self) -> bool:
        """Whether a pause may be a part of the longest of the others."""
        longest_ns = self.rest_paused_ns if self.unseen is None else self.rest_max_overhead_ns
        return longest_ns is not None and longest_ns >= PAUSE_SHARE * self.pause_ns

    @property
    def may_be_in_percentiles(self) -> bool:
        """Whether a sample that is as long as a pause may be one."""
        return self.count > 0 or self.is_in_rest or self.unseen is not None

    @property
    def is_longest(self) -> bool:
        """Whether the longest sample of all is an explained one."""
        return self.longest_ns is not None and self.longest_ns > (self.rest_max_overhead_ns or 0.0)


class _Measured(Figures):
    """What a trial and a cell have in common: figures of samples, some of which a limit may explain."""

    stats: Stats | None
    held_back: HeldBack | None = None
    """Probes that use up their time, where the kernel limits real-time threads; None elsewhere."""

    @property
    def worst_ns(self) -> float | None:
        """The longest sample that no limit explains."""
        if self.held_back is not None:
            return self.held_back.rest_max_ns
        return None if self.stats is None else self.stats.max_ns

    @property
    def worst_overhead_ns(self) -> float | None:
        """The same over the floor."""
        if self.held_back is not None:
            return self.held_back.rest_max_overhead_ns
        return None if self.stats is None else self.stats.max_overhead_ns

    @property
    def worst_at_s(self) -> float | None:
        """When it began, from the start of sample 0 of its repetition."""
        if self.held_back is not None:
            return self.held_back.rest_max_at_s
        return None if self.stats is None else self.stats.max_at_s

    @property
    def comparable_worst_ns(self) -> float | None:
        """The longest sample, if a ratio of it is no ratio of a limit."""
        return None if self.held_back is not None and self.held_back.is_in_rest else self.worst_ns

    @property
    def tail_overhead_ns(self) -> float | None:
        """How far the 99.9th percentile lies above the floor; None with too few samples, or if a limit explains it."""
        if self.stats is None or "p999_ns" in self.stats.unresolved:
            return None
        percentile_ns = self.percentile_ns("p999_ns")
        return None if percentile_ns is None else percentile_ns - self.stats.floor_ns

    def percentile_ns(self, name: str) -> float | None:
        """Give a percentile by its name among the statistics, ``p50_ns`` for one; None if it may be a limit's pause."""
        if self.stats is None:
            return None
        value_ns = float(getattr(self.stats, name))
        held_back = self.held_back
        if held_back is None or not held_back.may_be_in_percentiles:
            return value_ns
        return None if value_ns - self.stats.floor_ns >= PAUSE_SHARE * held_back.pause_ns else value_ns


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
    """The trial that these figures are of: the first one that it was found in."""
    found_in_repetitions: int
    """In how many repetitions it was found ..."""
    searched_repetitions: int
    """... of those that were looked at."""


class Stalls(Figures):
    """What a trial lost over its floor; samples that may be a pause of a limit are left out."""

    lost_s: float
    """Time over the floor, all samples together."""
    left_out: int
    """How many samples may be such a pause, by their length alone."""
    longest_ns: SkipJsonSchema[list[float]] = Field(default_factory=list, exclude=True)
    """Over the floor, of the longest samples, the longest first: what two runs find a common threshold in. Nothing in a
    document, where it is left out: stalls are then not judged."""


class TrialSummary(MeasuredTrial, _Measured):
    """One execution of a cell."""

    stalls: Stalls | None = None
    """None where nothing was measured."""
    folder: str
    loop_iterations: int | None = None
    """Of the busy loop of ``tick``: the work that a sample is of."""


class CellSummary(CellFigures, _Measured):
    """A cell: all its repetitions.

    ``stats`` are of the valid repetitions together; of all measured ones where none is valid; None where nothing was
    measured.
    """

    quantities: ClassVar[Mapping[str, str]] = {
        "wakeup-latency": "how late a sleeping real-time thread runs again (`wakeup`; as cyclictest)",
        "interruption": "by how much a busy loop takes longer than it does undisturbed (`tick`; of oslat, which times "
        "each turn of a much shorter loop, it is a bound from above)",
    }

    study: Literal["latency"] = "latency"
    probe: Literal["tick", "switch", "wakeup"]
    periods: list[Period]
    """Probe ``tick`` only."""
    trials: list[TrialSummary]

    def period_ns(self, stats: Stats) -> float:
        """Give the time from one of these samples to the next."""
        return WakeupParameters.of(self).interval_ns if self.probe == "wakeup" else stats.mean_ns

    def watched(self, quantity: str) -> Watched | None:
        """Give the latest wake-up, or the longest interruption of the busy loop."""
        if quantity != {"wakeup": "wakeup-latency", "tick": "interruption"}.get(self.probe):
            return None
        if self.stats is None:
            return Watched(None, 0.0)
        longest_ns = self.worst_ns if self.probe == "wakeup" else self.worst_overhead_ns
        hindrance = None
        if self.held_back is not None and self.held_back.longest_ns is not None:
            pause = f"{three_digits(self.held_back.longest_ns / 1e6)} ms"
            hindrance = f"{self.held_back.cause} stopped the probe for up to {pause}: --lift-rt-throttling"
        return Watched(longest_ns, self.stats.count * self.period_ns(self.stats) / 1e9, hindrance)

    @property
    def lines(self) -> list[str]:
        if self.stats is None:
            return ["no samples"]
        names = ("floor_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns", "max_overhead_ns")
        return [f"n {self.stats.count}", *(f"{name} {getattr(self.stats, name):.0f}" for name in names)]

    @property
    def columns(self) -> dict[str, JsonValue]:
        names = [name for name in Stats.model_fields if name != "unresolved"]
        figures = {name: "" if self.stats is None else getattr(self.stats, name) for name in names}
        return {**figures, "unresolved": "" if self.stats is None else " ".join(self.stats.unresolved)}

    def bounded(self) -> Bounded:
        """Give the longest overhead of those that no limit explains, of each repetition over its own floor.

        So ``stealtime-agent -b``, which knows one repetition, says the same of its samples.
        """
        own = [trial.worst_overhead_ns for trial in self.trials if trial.valid]
        longest_ns = max((one for one in own if one is not None), default=self.worst_overhead_ns)
        if longest_ns is not None or self.held_back is None:
            return Bounded(longest_ns)
        return Bounded(None, unknown_because=f"{self.held_back.cause} explains every sample")

    def at_percentile(self, percentile: str) -> Bounded:
        """Give a percentile of all samples of its valid repetitions over their floor, as tables have it."""
        if self.stats is None:
            return Bounded(None)
        name = f"p{percentile.replace('.', '')}_ns"
        value_ns = self.percentile_ns(name)
        if value_ns is None:
            cause = "a limit of the kernel" if self.held_back is None else self.held_back.cause
            return Bounded(None, unknown_because=f"its p{percentile} may be a pause of {cause}")
        return Bounded(value_ns - self.stats.floor_ns, samples=self.stats.count)


class RunSummary(report_summary.RunSummary):
    """The cells of a run that are this study's."""

    cells: Sequence[CellSummary]


def own_part(summary: report_summary.RunSummary) -> RunSummary:
    """Leave the cells of other studies out."""
    return RunSummary.model_construct(**{**dict(summary), "cells": summary.cells_of(CellSummary)})
