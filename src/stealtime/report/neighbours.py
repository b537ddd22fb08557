"""What ran beside the machine under test: where, with which load, how fast, and when its load was on.

``neighbours.parquet`` counts in the host's counter, samples in that of their machine. Both are brought together over
the host's CLOCK_MONOTONIC_RAW: the alignment of a trial gives the machine's counter at a moment of that clock, and a
reading of both of the host's clocks, which any trial of the same boot may have left, gives the host's counter at
another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.environment import cpu_list
from stealtime.store.model import NeighbourRecord, PlacementRecord, ShareRecord, TrialRecord
from stealtime.store.run import Run, Trial
from stealtime.vocabulary.clocks import ClockReading
from stealtime.vocabulary.quantities import format_duration

MOST_BANDS = 1_000
"""Of one trial: more could not be told apart; what is left out is said in the figure."""
_GAP_S = 2e-3
"""Rows are cut once a second and between phases; a shorter gap is no pause of the load."""


@dataclass(frozen=True)
class Bands:
    """When at least one neighbour's load was on, from sample 0 on."""

    spans_s: tuple[tuple[float, float], ...]
    absent_because: str | None = None
    left_out: int = 0
    """Spans beyond ``MOST_BANDS``."""


@dataclass(frozen=True)
class NeighbourLine:
    """One neighbour beside one platform, over all trials of a scenario."""

    platform: str
    name: str
    what: str
    load: str
    where: str
    rate: str
    """The median of all trials, with the least and the largest."""


@dataclass(frozen=True)
class Surroundings:
    """A scenario in words and its neighbours."""

    description: str
    placements: tuple[str, ...]
    scaled: str | None
    neighbours: tuple[NeighbourLine, ...]


@dataclass(frozen=True)
class HostReading:
    """The host's counter and its CLOCK_MONOTONIC_RAW at one moment."""

    tsc: int
    monotonic_raw_ns: int
    tsc_hz: float

    def tsc_at(self, monotonic_raw_ns: float) -> float:
        """Give the counter at another moment of the same boot."""
        return self.tsc + (monotonic_raw_ns - self.monotonic_raw_ns) * self.tsc_hz / 1e9


def host_readings(records: Iterable[TrialRecord]) -> list[HostReading]:
    """Find the readings of the host's own clocks: of native trials, host traces and processes as neighbours."""
    found = []
    for record in records:
        if record.host_tracing is not None:
            found.append(_reading(record.host_tracing.start, record.host_tracing.tsc_hz))
        if record.outcome is not None and traits_of(record.cell.platform).is_native:
            found.append(_reading(record.outcome.clock.start, record.outcome.clock.tsc_hz))
        found += [
            _reading(one.outcome.start, one.outcome.tsc_hz)
            for one in record.neighbours
            if one.outcome is not None and traits_of(one.platform).is_native
        ]
    return found


def bands_of(trial: Trial, readings: Sequence[HostReading]) -> Bands | None:
    """Give when a neighbour's load was on during a trial; None if there were no neighbours.

    Args:
        trial: With an outcome.
        readings: Of the host's clocks, in the same boot.
    """
    if trial.neighbours_path is None:
        return None
    origin = _origin_on_host(trial.record, readings)
    if isinstance(origin, str):
        return Bands((), origin)
    import pyarrow.parquet as pq

    host_tsc, tsc_hz = origin
    table = pq.read_table(trial.neighbours_path, columns=["start", "duration"])
    start_s = (table["start"].to_numpy().astype(np.float64) - host_tsc) / tsc_hz
    end_s = start_s + table["duration"].to_numpy().astype(np.float64) / tsc_hz
    spans = _union(sorted(zip(start_s.tolist(), end_s.tolist(), strict=True)))
    shown = tuple((round(start, 6), round(end, 6)) for start, end in spans[:MOST_BANDS])
    return Bands(shown, left_out=len(spans) - len(shown))


def surroundings_of(scenario: str, run: Run) -> Surroundings | None:
    """Say how a scenario was placed on this host and what ran beside; None for one that says nothing of itself."""
    records = [record for trial in run.trials if (record := trial.record).cell.scenario == scenario]
    known = next((one for one in run.manifest.scenarios if one.name == scenario), None)
    placements = dict.fromkeys(_placement(record.placement) for record in records if record.placement is not None)
    own = [record.placement for record in records if record.placement is not None]
    if known is not None and known.placement is not None:
        own.append(known.placement)
    scaled = next((placement.scaled for placement in own if placement.scaled), None)
    lines = tuple(_neighbour_lines(records))
    if not (known or placements or lines):
        return None
    return Surroundings(known.description if known else "", tuple(placements), scaled, lines)


def _reading(reading: ClockReading, tsc_hz: float) -> HostReading:
    return HostReading(reading.tsc, reading.monotonic_raw_ns, tsc_hz)


def _origin_on_host(record: TrialRecord, readings: Sequence[HostReading]) -> tuple[float, float] | str:
    """Give the host's counter at the start of sample 0 and its rate, or why it is not known."""
    assert record.outcome is not None  # noqa: S101 - of measured trials only
    clock = record.outcome.clock
    if clock.name != "tsc":
        return f"samples are timed by {clock.name}, which is not on one time line with the neighbours"
    if traits_of(record.cell.platform).is_native:
        return float(clock.origin_units), clock.tsc_hz
    if record.alignment is None:
        return "host and machine were not put on one time line"
    if not readings:
        return "no trial of this run read the host's own clocks"
    before = record.alignment.before
    host_ns = before.host_monotonic_raw_ns + (clock.origin_units - before.machine_tsc) * 1e9 / clock.tsc_hz
    nearest = min(readings, key=lambda reading: abs(reading.monotonic_raw_ns - host_ns))
    return nearest.tsc_at(host_ns), nearest.tsc_hz


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans, in order of their starts, that overlap or follow each other without a pause."""
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1] + _GAP_S:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _placement(placement: PlacementRecord) -> str:
    vcpus = "; ".join(
        f"vCPU {number} on CPU{'s' if len(cpus) > 1 else ''} {cpu_list(cpus)}{', roaming' if len(cpus) > 1 else ''}"
        for number, cpus in enumerate(placement.vcpu_cpus)
    )
    words = f"{vcpus}; emulator on {cpu_list(placement.emulator_cpus)}"
    return words if placement.share is None else f"{words}; {_share(placement.share)}"


def _share(share: ShareRecord) -> str:
    parts = [
        f"at most {share.quota_percent:g} % of a CPU" if share.quota_percent is not None else "",
        f"weight {share.weight}" if share.weight is not None else "",
    ]
    return ", ".join(part for part in parts if part) or "no limit"


def _neighbour_lines(records: Iterable[TrialRecord]) -> list[NeighbourLine]:
    seen: dict[tuple[str, str], list[NeighbourRecord]] = {}
    for record in records:
        for neighbour in record.neighbours:
            seen.setdefault((record.cell.platform, neighbour.name), []).append(neighbour)
    return [_neighbour_line(platform, own) for (platform, _), own in seen.items()]


def _neighbour_line(platform: str, own: Sequence[NeighbourRecord]) -> NeighbourLine:
    first = own[0]
    share = f", {_share(first.share)}" if first.share is not None else ""
    return NeighbourLine(
        platform=platform,
        name=first.name,
        what=f"machine ({first.platform})" if first.kind == "machine" else "process of the host",
        load=_load(first),
        where=f"CPU{'s' if len(first.cpus) > 1 else ''} {cpu_list(first.cpus)}{share}",
        rate=_rates(own),
    )


def _load(neighbour: NeighbourRecord) -> str:
    load = neighbour.load
    if load is None:
        return "the same work"
    words = "arithmetic" if load.kind.name == "cpu" else f"copies {load.kind.block_bytes / 1e6:,.3g} MB"
    if load.on_ns is not None and load.off_ns is not None:
        words += f", on {format_duration(load.on_ns)}, off {format_duration(load.off_ns)}"
    return words if load.priority == 0 else f"{words}, SCHED_FIFO {load.priority}"


def _rates(own: Sequence[NeighbourRecord]) -> str:
    """Give the rates that were reached; a neighbour without an outcome died, and its trial is invalid."""
    outcomes = [one.outcome for one in own if one.outcome is not None]
    if not outcomes:  # work has an end and no rate; its study tells how long it took
        return notation.ABSENT
    unit, size = ("loops/s", 1.0) if outcomes[0].unit == "loops" else ("GB/s", 1e9)
    rates = [outcome.rate_per_s / size for outcome in outcomes]
    words = f"{notation.three_digits(median(rates))} {unit}"
    if len(rates) > 1:
        words += f" ({notation.three_digits(min(rates))} to {notation.three_digits(max(rates))} in {len(rates)} trials)"
    dead = len(own) - len(outcomes)
    return words if not dead else f"{words}; died in {dead} trial{'s' if dead > 1 else ''}"
