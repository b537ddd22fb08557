"""What several hosts show together: their pooled distribution and the range over them, never the pool alone.

A pool hides one bad host among a hundred, and a maximum over hosts grows with how long all of them were watched: so a
percentile stands with the hosts where it is smallest and largest, and a maximum with its host, its time and the time
watched. Hosts are what varies: the interval is made of one value a host, not of samples or repetitions
(``report.interval``, with hosts as the clusters).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stealtime.merging.pooling import CellPools, Pool, is_pooled, loops_of
from stealtime.merging.trial_row import TrialRow
from stealtime.report.interval import REPETITIONS_MIN, interval_of_repetitions
from stealtime.vocabulary.readings import Model

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


@dataclass(frozen=True)
class HostPool:
    """What one host counted of a cell."""

    host: str
    rows: tuple[TrialRow, ...]
    pool: Pool

    def value_ns(self, name: str) -> float | None:
        return self.pool.value_ns(name)


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


def figures_of(rows: Sequence[TrialRow], pools: Mapping[str, CellPools]) -> list[HostsOfCell]:
    """Compute the figures of every cell, in the order of the rows."""
    cells: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        cells[row.cell].append(row)
    return [_of_cell(own, pools[cell]) for cell, own in cells.items()]


def hosts_of(rows: Sequence[TrialRow], pools: CellPools) -> list[HostPool]:
    """Give what each host counted of one cell, of the trials that may be used."""
    hosts: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        if is_pooled(row):
            hosts[row.host].append(row)
    return [HostPool(host, tuple(own), pools.hosts[host]) for host, own in hosts.items()]


def _of_cell(rows: Sequence[TrialRow], found: CellPools) -> HostsOfCell:
    pools = hosts_of(rows, found)
    first = rows[0]
    lengths = loops_of(rows)
    not_pooled = None
    if len(lengths) > 1:
        not_pooled = f"their loops did different work, {lengths[0]} to {lengths[-1]} iterations (use --loop-of)"
    together = found.together if not_pooled is None else None
    limits = {row.limit: row.limit_pause_ns for pool in pools for row in pool.rows if row.limit is not None}
    return HostsOfCell(
        cell=first.cell,
        platform=first.platform,
        scenario=first.scenario,
        measurement=first.measurement,
        hosts=[pool.host for pool in pools],
        trials=sum(len(pool.rows) for pool in pools),
        samples=sum(pool.pool.samples for pool in pools),
        rounded_samples=sum(row.rounded_samples or 0 for pool in pools for row in pool.rows),
        figures=[one for name in NAMES if (one := _range(name, pools, together)) is not None],
        longest=_longest(pools),
        not_pooled=not_pooled,
        limited="; ".join(_limit_words(name, pause) for name, pause in limits.items()) or None,
        left_out=[f"{row.host}, repetition {row.repetition}: {row.why_not}" for row in rows if not row.usable],
    )


def _limit_words(name: str, pause_ns: int | None) -> str:
    return f"{name.replace('_', ' ')}, pauses of {(pause_ns or 0) / 1e6:g} ms"


def _range(name: str, pools: Sequence[HostPool], together: Pool | None) -> RangeOverHosts | None:
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
        pooled_ns=None if together is None else together.value_ns(name),
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
