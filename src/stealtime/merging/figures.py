"""What several hosts show together: their pooled distribution and the range over them, never the pool alone.

A pool hides one bad host among a hundred, and a maximum over hosts grows with how long all of them were watched: so a
percentile stands with the hosts where it is smallest and largest, and a maximum with its host, its time and the time
watched. Hosts are what varies: the interval is made of one value a host, not of samples or repetitions
(``report.interval``, with hosts as the clusters).

Counts add up as integers. Clocks whose rates differ by no more than two readings of one clock do (100 ppm) count in
the same units, as the repetitions of a cell do; where they differ more, both are counted in picoseconds, rounded down.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean

import numpy as np

from stealtime.merging.tables import TrialRow
from stealtime.report.interval import REPETITIONS_MIN, interval_of_repetitions
from stealtime.store.counts import Counts, merge_counts
from stealtime.vocabulary.readings import Model

PERCENTILES = {
    "p50_ns": (50, 100),
    "p90_ns": (90, 100),
    "p99_ns": (99, 100),
    "p999_ns": (999, 1_000),
    "p9999_ns": (9_999, 10_000),
    "p99999_ns": (99_999, 100_000),
}
NAMES = {
    "min_ns": "min",
    "p50_ns": "p50",
    "p90_ns": "p90",
    "p99_ns": "p99",
    "p999_ns": "p99.9",
    "p9999_ns": "p99.99",
    "p99999_ns": "p99.999",
    "max_ns": "max",
}
_RATE_SPREAD_LIMIT = 1e-4
_PICOSECONDS = 10**12


@dataclass(frozen=True)
class HostPool:
    """What one host counted of a cell."""

    host: str
    rows: tuple[TrialRow, ...]
    counts: Counts
    units_per_s: int

    def value_ns(self, name: str) -> float | None:
        return value_ns(self.counts, self.units_per_s, name)


class RangeOverHosts(Model):
    """A figure of each host: where it is smallest and largest."""

    name: str
    pooled_ns: float | None
    """Of all hosts' samples together; None where so few do not resolve it, or where they are not pooled."""
    smallest_ns: float
    smallest_host: str
    largest_ns: float
    largest_host: str
    value_ns: float | None
    """The geometric mean over hosts with its 95 % interval in another session; None where that is not judged."""
    low_ns: float | None
    high_ns: float | None
    because: str | None
    """Why it is not judged."""


class LongestOfHosts(Model):
    """The longest sample of all hosts."""

    ns: float
    host: str
    at: datetime
    """When it began, by that host's clock: when its trial was begun, and how far into the samples it was."""
    watched_s: float
    """How long all hosts together were watched."""
    cause: str | None


class HostsOfCell(Model):
    """A cell as its hosts measured it."""

    cell: str
    platform: str
    scenario: str
    measurement: str
    hosts: list[str]
    trials: int
    samples: int
    rounded_samples: int
    """Of these, those whose durations were rounded down, because they hardly repeat."""
    figures: list[RangeOverHosts]
    longest: LongestOfHosts | None
    not_pooled: str | None
    """Why hosts' samples are not put together."""
    limited: str | None
    """The kernel's limit on real-time threads that acted: a longest sample may be its pause."""
    left_out: list[str]
    """Trials that may not be used, with why."""


def figures_of(rows: Sequence[TrialRow], counts: Mapping[int, Counts]) -> list[HostsOfCell]:
    """Compute the figures of every cell, in the order of the rows."""
    cells: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        cells[row.cell].append(row)
    return [_of_cell(own, counts) for own in cells.values()]


def pools_of(rows: Sequence[TrialRow], counts: Mapping[int, Counts]) -> list[HostPool]:
    """Give what each host counted of one cell, of the trials that may be used."""
    hosts: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        if row.is_counted and row.trial in counts:
            hosts[row.host].append(row)
    return [
        HostPool(host, tuple(own), *_added((counts[row.trial], row.units_per_s or 1.0) for row in own))
        for host, own in hosts.items()
    ]


def value_ns(counts: Counts, units_per_s: int, name: str) -> float | None:
    """Give a figure of some counts by its name; None where there are too few samples for it."""
    if not len(counts.duration):
        return None
    if name == "min_ns":
        units = int(counts.duration[0])
    elif name == "max_ns":
        units = int(counts.duration[-1])
    else:
        numerator, denominator = PERCENTILES[name]
        if counts.samples * (denominator - numerator) < denominator:
            return None
        units = counts.percentile(numerator, denominator)
    return units * 1e9 / units_per_s


def _added(parts: "Iterator[tuple[Counts, float]]") -> tuple[Counts, int]:
    """Add counts up in one unit; gives how many of it a second has."""
    found = list(parts)
    rates = [rate for _, rate in found]
    if max(rates) <= min(rates) * (1 + _RATE_SPREAD_LIMIT):
        return merge_counts(one for one, _ in found), round(fmean(rates))
    return merge_counts(_in_picoseconds(one, round(rate)) for one, rate in found), _PICOSECONDS


def _in_picoseconds(counts: Counts, units_per_s: int) -> Counts:
    """Bring durations to picoseconds, in integers that never overflow: seconds, then nanoseconds, then the rest."""
    rate = np.uint64(units_per_s)
    thousand, billion = np.uint64(1_000), np.uint64(10**9)
    rest = (counts.duration % rate) * billion
    whole = (counts.duration // rate) * np.uint64(_PICOSECONDS) + (rest // rate) * thousand
    exact = whole + (rest % rate) * thousand // rate
    return merge_counts([Counts(exact, counts.count, counts.rounded)])


def _of_cell(rows: Sequence[TrialRow], counts: Mapping[int, Counts]) -> HostsOfCell:
    pools = pools_of(rows, counts)
    first = rows[0]
    lengths = sorted({row.loop_iterations for pool in pools for row in pool.rows if row.loop_iterations is not None})
    not_pooled = None
    if len(lengths) > 1:
        not_pooled = f"their loops did different work, {lengths[0]} to {lengths[-1]} iterations (use --loop-of)"
    together = None
    if pools and not_pooled is None:
        together = _added((pool.counts, float(pool.units_per_s)) for pool in pools)
    limits = {row.limit: row.limit_pause_ns for pool in pools for row in pool.rows if row.limit is not None}
    return HostsOfCell(
        cell=first.cell,
        platform=first.platform,
        scenario=first.scenario,
        measurement=first.measurement,
        hosts=[pool.host for pool in pools],
        trials=sum(len(pool.rows) for pool in pools),
        samples=sum(pool.counts.samples for pool in pools),
        rounded_samples=sum(row.rounded_samples or 0 for pool in pools for row in pool.rows),
        figures=[one for name in NAMES if (one := _range(name, pools, together)) is not None],
        longest=_longest(pools),
        not_pooled=not_pooled,
        limited="; ".join(_limit_words(name, pause) for name, pause in limits.items()) or None,
        left_out=[f"{row.host}, repetition {row.repetition}: {row.why_not}" for row in rows if not row.usable],
    )


def _limit_words(name: str, pause_ns: int | None) -> str:
    return f"{name.replace('_', ' ')}, pauses of {(pause_ns or 0) / 1e6:g} ms"


def _range(name: str, pools: Sequence[HostPool], together: tuple[Counts, int] | None) -> RangeOverHosts | None:
    known = [(value, pool.host) for pool in pools if (value := pool.value_ns(name)) is not None]
    if not known:
        return None
    smallest, largest = min(known), max(known)
    values = [value for value, _ in known]
    because = None
    if len(values) < len(pools):
        because = f"{len(pools) - len(values)} of {len(pools)} hosts have too few samples"
    elif len(values) < REPETITIONS_MIN:
        because = f"there are fewer than {REPETITIONS_MIN} hosts ({len(values)})"
    elif min(values) <= 0.0:
        because = "it is 0 on a host"
    elif name in ("min_ns", "max_ns"):
        because = "it grows with the time watched" if name == "max_ns" else "it falls with the time watched"
    interval = interval_of_repetitions(values) if because is None else None
    return RangeOverHosts(
        name=name,
        pooled_ns=None if together is None else value_ns(*together, name),
        smallest_ns=smallest[0],
        smallest_host=smallest[1],
        largest_ns=largest[0],
        largest_host=largest[1],
        value_ns=None if interval is None else interval.value,
        low_ns=None if interval is None else interval.low,
        high_ns=None if interval is None else interval.high,
        because=because,
    )


def _longest(pools: Sequence[HostPool]) -> LongestOfHosts | None:
    rows = [row for pool in pools for row in pool.rows if row.longest_units is not None and row.units_per_s]
    if not rows:
        return None
    row = max(rows, key=lambda one: (one.longest_units or 0) / (one.units_per_s or 1.0))
    rate = row.units_per_s or 1.0
    return LongestOfHosts(
        ns=(row.longest_units or 0) * 1e9 / rate,
        host=row.host,
        at=row.started_at.replace(tzinfo=UTC) + timedelta(seconds=(row.longest_start_units or 0) / rate),
        watched_s=sum(one.watched_s for one in rows),
        cause=row.cause,
    )
