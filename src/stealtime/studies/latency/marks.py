"""What the run's time line shows of a trial: its samples, its spikes, and what took each of the longest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stealtime.report.marks import Mark, Slice, Track, TrialMarks, Value, next_flow
from stealtime.store.export import read_samples
from stealtime.store.host_line import HostLine
from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.attribution.attribute import (
    LEAST_OVERHEAD_NS,
    LEAST_OVERHEAD_SHARE,
    MOST_SPIKES,
    NotAttributed,
    attribute_trial,
)
from stealtime.studies.latency.attribution.model import AttributedSpike, Segment, TrialAttribution
from stealtime.vocabulary.clocks import ClockRecord
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime._core import SummaryDict

MOST_VALUES = 100_000
"""So many samples are drawn one by one; of more, the longest of each of so many equal stretches of time."""
WORST = 256
"""Spikes whose causes are drawn, as on the page."""


@dataclass(frozen=True)
class _SampleLine:
    """The samples' clock on the host's."""

    origin_ns: int
    """The start of sample 0."""
    ns_per_ns: float
    """Nanoseconds of the host in one of the samples' clock."""

    @classmethod
    def of(cls, clock: ClockRecord, line: HostLine) -> "_SampleLine":
        if clock.name == "tsc":
            rate = clock.units_per_s / 1e9
            return cls(line.machine.moment(clock.origin_units), rate * line.machine.ns_per_cycle)
        elapsed_ns = clock.end.monotonic_ns - clock.start.monotonic_ns
        if elapsed_ns <= 0:
            raise StealtimeError(f"the machine's CLOCK_MONOTONIC moved by {elapsed_ns} ns over the trial")
        rate = (clock.end.tsc - clock.start.tsc) / elapsed_ns
        origin = clock.start.tsc + round((clock.origin_units - clock.start.monotonic_ns) * rate)
        return cls(line.machine.moment(origin), rate * line.machine.ns_per_cycle)

    def at(self, since_origin_ns: float) -> int:
        return self.origin_ns + round(since_origin_ns * self.ns_per_ns)

    def piece(self, start_ns: float, duration_ns: float) -> tuple[int, int]:
        """Give begin and length of a stretch, so that stretches that touch still do."""
        begin = self.at(start_ns)
        return begin, max(0, self.at(start_ns + duration_ns) - begin)


def marks_of(trial: Trial, line: HostLine, root: Track) -> TrialMarks:
    """Draw a measured trial; see ``report.study.ReportedStudy.marks``.

    Raises:
        StealtimeError: Its samples are damaged.
    """
    outcome = trial.record.outcome
    if outcome is None:
        return TrialMarks(line)
    left_out: list[str] = []
    told: TrialAttribution | None = None
    try:
        told = attribute_trial(trial, worst=WORST)
    except NotAttributed as error:
        left_out.append(f"causes of its spikes: {error.message}")
    if told is not None and told.trace.host_events > 0:
        known = told.time_line
        line = line.with_offset(known.offset_cycles, known.error_ns, known.method)
    on_host = _SampleLine.of(outcome.clock, line)
    series = load_series(trial)
    samples = series.summary()["count"]
    if samples > MOST_VALUES:
        left_out.append(f"{samples} samples: of each of {MOST_VALUES} equal stretches only the longest is drawn")
    if told is not None and told.spikes + told.left_out > len(told.worst):
        left_out.append(f"causes of {told.spikes + told.left_out - len(told.worst)} shorter spikes: {WORST} are drawn")

    def marks() -> Iterator[Mark]:
        yield from _values(trial, on_host, Track("samples", root, is_time=True, is_counter=True), samples)
        yield from _spikes(trial, told, on_host, root)

    return TrialMarks(line, marks(), left_out)


def _values(trial: Trial, on_host: _SampleLine, track: Track, samples: int) -> Iterator[Mark]:
    if samples <= MOST_VALUES:
        for batch in read_samples(trial):
            starts, durations = batch.column("start_ns").to_pylist(), batch.column("duration_ns").to_pylist()
            for start_ns, duration_ns in zip(starts, durations, strict=True):
                yield Value(track, on_host.at(start_ns), duration_ns)
        return
    found = load_series(trial).envelope(MOST_VALUES)
    for at_s, longest_ns in zip(found["max_at_s"].tolist(), found["max_ns"].tolist(), strict=True):
        yield Value(track, on_host.at(at_s * 1e9), longest_ns)


def _spikes(trial: Trial, told: TrialAttribution | None, on_host: _SampleLine, root: Track) -> Iterator[Mark]:
    series = load_series(trial)
    outcome = trial.record.outcome
    assert outcome is not None  # noqa: S101 - who calls has looked
    units_per_ns = outcome.clock.units_per_s / 1e9
    threshold_ns = told.threshold_ns if told is not None else _threshold_ns(series.summary())
    found = series.spikes(round(threshold_ns * units_per_ns), MOST_SPIKES)
    known = {} if told is None else {spike.index: spike for spike in told.worst}
    track = Track("spikes", root)
    causes = {name: Track(f"causes in the {name}", root) for name in ("machine", "host")}
    drawn_until_ns = -np.inf
    for index, start, duration in zip(
        found["index"].tolist(), found["start"].tolist(), found["duration"].tolist(), strict=True
    ):
        start_ns, duration_ns = start / units_per_ns, duration / units_per_ns
        arguments: dict[str, str | int | float | bool] = {"sample": index, "duration in ns": duration_ns}
        spike = known.get(index)
        pieces: list[Slice] = []
        if spike is not None:
            arguments |= _parts(spike)
            # Expiries that one stall swallowed have it in common: it is drawn once.
            if start_ns >= drawn_until_ns:
                pieces = _pieces(spike.segments, start_ns, on_host, causes)
                drawn_until_ns = start_ns + duration_ns
        flows = tuple(piece.ends_flow for piece in pieces if piece.ends_flow is not None)
        yield Slice(track, *on_host.piece(start_ns, duration_ns), "spike", "spike", arguments, flows)
        yield from pieces


def _threshold_ns(figures: "SummaryDict") -> float:
    return figures["p50_ns"] + max(LEAST_OVERHEAD_NS, LEAST_OVERHEAD_SHARE * figures["floor_ns"])


def _parts(spike: AttributedSpike) -> dict[str, str | int | float | bool]:
    if not spike.judged:
        return {"judged": False}
    return {"excess in ns": spike.excess_ns, **{f"of it {part.cause.label}": part.ns for part in spike.parts}}


def _pieces(
    segments: Sequence[Segment], start_ns: float, on_host: _SampleLine, causes: dict[str, Track]
) -> list[Slice]:
    """Draw the segments that have a cause; an arrow goes from the spike to the longest of each cause."""
    longest: dict[str, Segment] = {}
    for segment in segments:
        if segment.cause is not None:
            label = segment.cause.label
            if label not in longest or longest[label].duration_ns < segment.duration_ns:
                longest[label] = segment
    pieces = []
    for segment in segments:
        if segment.cause is None:
            continue
        at_ns, length_ns = on_host.piece(start_ns + segment.start_ns, segment.duration_ns)
        flow = next_flow() if longest[segment.cause.label] is segment else None
        pieces.append(
            Slice(causes[segment.track], at_ns, length_ns, segment.cause.label, segment.cause.kind, {}, ends_flow=flow)
        )
    return pieces
