"""One trial of a run, in a row of the run's tables."""

from dataclasses import dataclass
from datetime import datetime

from stealtime.store.travelling import CountsFile


@dataclass(frozen=True)
class TrialRow:
    """One trial of a run."""

    trial: int
    folder: str
    run: str
    cell: str
    platform: str
    scenario: str
    probe: str
    measurement: str
    traced: bool
    repetition: int
    host: str
    started_at: datetime
    """In UTC, without saying so: DuckDB knows no time zones without an extension."""
    state: str
    usable: bool
    why_not: str | None
    units_per_s: float | None
    samples: int | None
    watched_units: int | None
    longest_units: int | None
    longest_start_units: int | None
    rounded_samples: int | None
    loop_iterations: int | None
    limit: str | None
    limit_pause_ns: int | None
    cause: str | None
    """Of the longest sample, where it was traced; else what the trial itself says was found around it."""
    min_units: int | None
    p50_units: int | None
    p90_units: int | None
    p99_units: int | None
    p999_units: int | None
    """Percentiles are None where there are too few samples to resolve them."""
    p9999_units: int | None
    stalls_1ms: int | None
    """Samples of at least 1 ms more than the shortest one, without those that a limit's pause may explain."""
    stalls_4ms: int | None

    @property
    def watched_s(self) -> float:
        return 0.0 if self.units_per_s is None else (self.watched_units or 0) / self.units_per_s

    @property
    def is_counted(self) -> bool:
        """Whether it has counts that may be used."""
        return self.usable and self.samples is not None


@dataclass(frozen=True)
class CountedTrial:
    """A trial's row, and what its counts were read of; None where it has none."""

    row: TrialRow
    counted: CountsFile | None
