"""One trial: which samples are spikes, and what took each of them (``docs/attribution.md``)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.attribution.model import (
    AttributedSpike,
    Cause,
    CauseShare,
    Part,
    Segment,
    TrialAttribution,
)
from stealtime.studies.latency.attribution.not_attributed import NotAttributed
from stealtime.studies.latency.attribution.views import judge_views, steal_at_most_ns
from stealtime.studies.latency.attribution.world import World, split
from stealtime.vocabulary.clocks import ClockRecord
from stealtime.wire.message import TrialOutcome

if TYPE_CHECKING:
    from stealtime._core import AttributionDict, Series, SpikesDict

__all__ = ["NotAttributed", "SplitTrial", "attribute_sample", "attribute_trial", "split_trial"]

LEAST_OVERHEAD_NS = 5_000.0
"""Default threshold over the median: about an interrupt on a virtual machine, so that ticks are seen, not jitter ..."""
LEAST_OVERHEAD_SHARE = 0.1
"""... or this share of the floor, whichever is more: a loop of a millisecond jitters by more than 5 us."""
MOST_SPIKES = 100_000
"""The longest are looked at; the rest are counted."""

RULE = (
    "Each moment of a spike has one cause: the outer layer wins over the inner one (the host's throttling and"
    " preemption, then its interrupts, then VM exits, then the machine's own), and within a layer what interrupts wins"
    " over what is interrupted. A virtual CPU that sleeps because its machine's probe is throttled takes nothing from"
    " it. Of a spike's excess over the floor, what no cause took is unexplained; causes that took more are scaled"
    " down together. No part of a single spike is called steal: the host's own host is only known as a total."
)


@dataclass(frozen=True)
class _Spikes:
    """The samples to split; arrays have shape (spikes,)."""

    index: NDArray[np.uint64]
    start_units: NDArray[np.uint64]
    """From the start of sample 0, in the units of the samples."""
    start: NDArray[np.uint64]
    """In cycles of the machine's counter."""
    duration: NDArray[np.uint64]
    """In cycles."""
    floor: int
    """In cycles."""
    threshold_ns: float
    total: int
    """Over the threshold, the ones left out included."""
    cycles_per_ns: float
    """Of the samples' clock, so that a sample's length in ns is the same here as everywhere."""

    def asked(self, time_lines_of: list[int]) -> "SpikesDict":
        return {
            "start": self.start,
            "duration": self.duration,
            "floor": self.floor,
            "time_lines_of": time_lines_of,
        }


@dataclass(frozen=True)
class SplitTrial:
    """All spikes of a trial with their parts; the first arrays have shape (spikes,), in order of time.

    The parts of spike ``i`` are the rows ``first[i]`` to ``first[i + 1]`` of ``cause`` and ``part_ns``.
    """

    floor_ns: float
    usual_excess_ns: float
    """The median of all samples less the floor."""
    start_s: NDArray[np.float64]
    excess_ns: NDArray[np.float64]
    judged: NDArray[np.bool_]
    first: NDArray[np.uint64]
    causes: list[Cause]
    cause: NDArray[np.uint16]
    part_ns: NDArray[np.float64]


def split_trial(trial: Trial, overhead_ns: float) -> SplitTrial:
    """Split the spikes of a traced trial into causes, and give every one.

    Args:
        trial: As for :func:`attribute_trial`.
        overhead_ns: Samples that are longer than the floor by more than this are spikes.

    Raises:
        NotAttributed: As :func:`attribute_trial`.
        StealtimeError: As :func:`attribute_trial`.
    """
    outcome = _outcome(trial)
    series = load_series(trial)
    figures = series.summary()
    spikes = _find_spikes(series, outcome, figures["floor_ns"] + overhead_ns)
    found = split(trial, outcome, spikes.asked([])).found
    excess = np.maximum(spikes.duration.astype(np.int64) - spikes.floor, 0)
    return SplitTrial(
        floor_ns=figures["floor_ns"],
        usual_excess_ns=figures["p50_ns"] - figures["floor_ns"],
        start_s=spikes.start_units / outcome.clock.units_per_s,
        excess_ns=excess / spikes.cycles_per_ns,
        judged=found["judged"],
        first=found["first"],
        causes=_causes(found),
        cause=found["cause"],
        part_ns=found["cycles"] / spikes.cycles_per_ns,
    )


def attribute_trial(trial: Trial, *, threshold_ns: float | None = None, worst: int = 20) -> TrialAttribution:
    """Split the spikes of a traced trial into causes.

    Args:
        trial: With traces of the host, the machine, or both.
        threshold_ns: Longer samples are spikes; the default is the median and the larger of 5 us and 10 % of the floor.
        worst: How many spikes are given one by one, with their time lines.

    Raises:
        NotAttributed: It was not measured or not traced, or its clocks cannot be aligned.
        StealtimeError: A file of the trial is damaged.
    """
    outcome = _outcome(trial)
    spikes = _find_spikes(load_series(trial), outcome, threshold_ns)
    longest = np.lexsort((spikes.index, -spikes.duration.astype(np.int64)))[:worst]
    world = split(trial, outcome, spikes.asked([int(row) for row in longest]))
    return _summarize(trial, outcome, spikes, longest, world)


def attribute_sample(trial: Trial, index: int, duration_units: int) -> AttributedSpike:
    """Split one sample of a traced trial into causes, whether it is a spike by the rule or not.

    Args:
        trial: As for :func:`attribute_trial`.
        index: Of the sample.
        duration_units: What it lasted, in the units of its clock.

    Raises:
        NotAttributed: As :func:`attribute_trial`, or there is no such sample over the floor.
        StealtimeError: As :func:`attribute_trial`.
    """
    outcome = _outcome(trial)
    threshold_ns = (duration_units - 1) / (outcome.clock.units_per_s / 1e9)
    spikes = _find_spikes(load_series(trial), outcome, threshold_ns)
    (rows,) = np.nonzero(spikes.index == index)
    if len(rows) != 1:
        raise NotAttributed(f"sample {index} of {trial.record.trial_id} is not above its floor")
    chosen = {name: getattr(spikes, name)[rows] for name in ("index", "start_units", "start", "duration")}
    one = replace(spikes, **chosen)
    found = split(trial, outcome, one.asked([0])).found
    (spike,) = _worst(found, _causes(found), one, np.array([0]), outcome.clock.units_per_s)
    return spike


def _outcome(trial: Trial) -> TrialOutcome:
    if trial.record.outcome is None:
        raise NotAttributed(f"{trial.record.trial_id} was not measured")
    return trial.record.outcome


def _find_spikes(series: "Series", outcome: TrialOutcome, threshold_ns: float | None) -> _Spikes:
    clock = outcome.clock
    units_per_ns = clock.units_per_s / 1e9
    figures = series.summary()
    floor_units = round(figures["floor_ns"] * units_per_ns)
    floor_ns = floor_units / units_per_ns
    if threshold_ns is None:
        # From the median: what half of the samples show (a translated machine's own slowness) is no spike.
        threshold_ns = figures["p50_ns"] + max(LEAST_OVERHEAD_NS, LEAST_OVERHEAD_SHARE * floor_ns)
    found = series.spikes(max(floor_units, round(threshold_ns * units_per_ns)), MOST_SPIKES)
    start, duration = found["start"], found["duration"]
    if clock.name == "tsc":
        return _Spikes(
            index=found["index"],
            start_units=start,
            start=start + np.uint64(clock.origin_units),
            duration=duration,
            floor=floor_units,
            threshold_ns=threshold_ns,
            total=found["total"],
            cycles_per_ns=units_per_ns,
        )
    cycles_per_ns = _cycles_per_monotonic_ns(clock)
    # CLOCK_MONOTONIC of the machine against its counter, from the readings before and after the trial.
    since_reading = start.astype(np.float64) + float(clock.origin_units - clock.start.monotonic_ns)
    cycles = np.rint(since_reading * cycles_per_ns).astype(np.int64) + clock.start.tsc
    return _Spikes(
        index=found["index"],
        start_units=start,
        start=np.maximum(cycles, 0).astype(np.uint64),
        duration=np.rint(duration * cycles_per_ns).astype(np.uint64),
        floor=round(floor_units * cycles_per_ns),
        threshold_ns=threshold_ns,
        total=found["total"],
        cycles_per_ns=cycles_per_ns,
    )


def _cycles_per_monotonic_ns(clock: ClockRecord) -> float:
    elapsed_ns = clock.end.monotonic_ns - clock.start.monotonic_ns
    if elapsed_ns <= 0:
        raise NotAttributed(f"the machine's CLOCK_MONOTONIC moved by {elapsed_ns} ns over the trial")
    return (clock.end.tsc - clock.start.tsc) / elapsed_ns


def _summarize(
    trial: Trial, outcome: TrialOutcome, spikes: _Spikes, longest: NDArray[np.intp], world: World
) -> TrialAttribution:
    found = world.found
    causes = _causes(found)
    excess = np.maximum(spikes.duration.astype(np.int64) - spikes.floor, 0)
    judged = found["judged"]
    excess_ns = float(excess[judged].sum() / spikes.cycles_per_ns)
    shares = _shares(found, causes, excess_ns, spikes.cycles_per_ns)
    unexplained_ns = sum(share.lost_ns for share in shares if share.cause.kind == "unexplained")
    return TrialAttribution(
        trial_id=trial.record.trial_id,
        threshold_ns=spikes.threshold_ns,
        spikes=len(spikes.index),
        left_out=spikes.total - len(spikes.index),
        judged=int(judged.sum()),
        not_judged=int((~judged).sum()),
        scaled=found["scaled"],
        excess_ns=excess_ns,
        total_lost_ns=float(excess.sum() / spikes.cycles_per_ns),
        shares=shares,
        worst=_worst(found, causes, spikes, longest, outcome.clock.units_per_s),
        time_line=world.time_line,
        trace=world.trace,
        views=judge_views(trial.record.host_views, trial.record.host_tracing, outcome, world),
        steal_at_most_ns=steal_at_most_ns(trial.record.host_views, _vcpu_cpus(trial), unexplained_ns),
        rule=RULE,
    )


def _vcpu_cpus(trial: Trial) -> int:
    """Count the CPUs of the host that the machine might run on; those of a run that does not say are taken for one."""
    placement = trial.record.placement
    return 1 if placement is None else len({cpu for cpus in placement.vcpu_cpus for cpu in cpus})


def _causes(found: "AttributionDict") -> list[Cause]:
    return [Cause.model_validate({"layer": one[0], "kind": one[1], "name": one[2]}) for one in found["causes"]]


def _shares(found: "AttributionDict", causes: list[Cause], excess_ns: float, cycles_per_ns: float) -> list[CauseShare]:
    rows, cycles = found["cause"], found["cycles"]
    lost = np.bincount(rows, weights=cycles, minlength=len(causes)) / cycles_per_ns
    # A cause is listed at most once a spike.
    spikes = np.bincount(rows, minlength=len(causes))
    largest = np.zeros(len(causes))
    np.maximum.at(largest, rows, cycles / cycles_per_ns)
    shares = [
        CauseShare(
            cause=cause,
            lost_ns=float(lost[row]),
            share=float(lost[row] / excess_ns),
            spikes=int(spikes[row]),
            largest_ns=float(largest[row]),
        )
        for row, cause in enumerate(causes)
        if spikes[row] > 0
    ]
    return sorted(shares, key=lambda share: -share.lost_ns)


def _worst(
    found: "AttributionDict", causes: list[Cause], spikes: _Spikes, longest: NDArray[np.intp], units_per_s: float
) -> list[AttributedSpike]:
    segments: dict[int, list[Segment]] = {}
    for row, track, start, duration, cause in found["segments"]:
        told = None if cause is None else causes[cause]
        ran = "the probe ran" if track == "machine" else "the machine had its CPU"
        segments.setdefault(row, []).append(
            Segment(
                track=track,
                start_ns=start / spikes.cycles_per_ns,
                duration_ns=duration / spikes.cycles_per_ns,
                cause=told,
                text=ran if told is None else told.label,
            )
        )
    worst = []
    for row in (int(row) for row in longest):
        first, end = int(found["first"][row]), int(found["first"][row + 1])
        judged = bool(found["judged"][row])
        duration = int(spikes.duration[row])
        parts = [
            Part(cause=causes[cause], ns=float(cycles) / spikes.cycles_per_ns)
            for cause, cycles in zip(found["cause"][first:end], found["cycles"][first:end], strict=True)
        ]
        worst.append(
            AttributedSpike(
                index=int(spikes.index[row]),
                start_s=float(spikes.start_units[row]) / units_per_s,
                duration_ns=duration / spikes.cycles_per_ns,
                excess_ns=max(duration - spikes.floor, 0) / spikes.cycles_per_ns,
                judged=judged,
                parts=parts,
                # Where events were lost, "it ran" would only mean that nothing is known.
                segments=segments.get(row, []) if judged else [],
            )
        )
    return worst
