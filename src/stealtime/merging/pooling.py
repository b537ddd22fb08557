"""What hosts counted of a cell, added up: the figures of each host and of all of them, and no more than those.

Counts add up as integers. Clocks whose rates differ by no more than two readings of one clock do (100 ppm) count in
the same units, as the repetitions of a cell do; where they differ more, both are counted in picoseconds, rounded down.

``pools.parquet`` of a merged run keeps them, so that who shows it reads no counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.merging.trial_row import TrialRow
from stealtime.store.columns import arrow_column
from stealtime.store.counts import Counts, merge_counts

POOLS = "pools.parquet"
PERCENTILES = {
    "p50_ns": (50, 100),
    "p90_ns": (90, 100),
    "p99_ns": (99, 100),
    "p999_ns": (999, 1_000),
    "p9999_ns": (9_999, 10_000),
    "p99999_ns": (99_999, 100_000),
}
FIGURES = ("min_ns", *PERCENTILES, "max_ns")
_RATE_SPREAD_LIMIT = 1e-4
_PICOSECONDS = 10**12
_KEPT_APART = 32
"""Pools that wait until they are added up: some ten megabytes of a cell."""
_SCHEMA = pa.schema(
    [
        ("cell", pa.string()),
        ("host", pa.string()),
        ("units_per_s", pa.uint64()),
        ("samples", pa.uint64()),
        *((f"{name.removesuffix('_ns')}_units", pa.uint64()) for name in FIGURES),
    ]
)


@dataclass(frozen=True)
class Pool:
    """The figures of some counts that were added up."""

    units_per_s: int
    samples: int
    units: tuple[int | None, ...]
    """In the order of :data:`FIGURES`; None where there are too few samples for one."""

    def value_ns(self, name: str) -> float | None:
        units = self.units[FIGURES.index(name)]
        return None if units is None else units * 1e9 / self.units_per_s


@dataclass(frozen=True)
class CellPools:
    """A cell as its hosts counted it."""

    hosts: Mapping[str, Pool]
    together: Pool | None
    """All hosts; None where nothing was counted, or where they did different work."""


@dataclass
class Gathered:
    """What some hosts counted, which adds up with what others did."""

    hosts: dict[tuple[str, str], Pool] = field(default_factory=dict)
    """By cell and host."""
    waiting: dict[str, list[Counts]] = field(default_factory=dict)
    """By cell: those of all its hosts, each in units of its own."""

    def add_host(self, cell: str, host: str, counted: Sequence[tuple[Counts, float]]) -> None:
        """Add what one host counted of a cell, in all its trials that may be used, with the rates of their clocks."""
        counts, rate = added(counted)
        self.hosts[cell, host] = pool_of(counts, rate)
        self._wait(cell, [counts])

    def add(self, other: "Gathered") -> None:
        self.hosts |= other.hosts
        for cell, counts in other.waiting.items():
            self._wait(cell, counts)

    def add_up(self) -> None:
        """Let nothing wait any more: what goes to another process is small then."""
        self.waiting = {cell: [merge_counts(counts)] for cell, counts in self.waiting.items()}

    def _wait(self, cell: str, counts: Sequence[Counts]) -> None:
        waiting = self.waiting.setdefault(cell, [])
        waiting.extend(counts)
        if len(waiting) >= _KEPT_APART:
            self.waiting[cell] = [merge_counts(waiting)]


def is_pooled(row: TrialRow) -> bool:
    """Tell whether a trial counts in its host's pool."""
    return row.is_counted and bool(row.samples)


def loops_of(rows: Iterable[TrialRow]) -> list[int]:
    """Give the different lengths of the loops of the trials that are pooled, in order."""
    return sorted({row.loop_iterations for row in rows if row.loop_iterations is not None and is_pooled(row)})


def pools_of_rows(rows: Sequence[TrialRow], counts: Mapping[int, Counts]) -> dict[str, CellPools]:
    """Pool trials whose counts are at hand, by cell."""
    gathered = Gathered()
    for (cell, host), own in _by_host(rows).items():
        gathered.add_host(cell, host, [(counts[row.trial], row.units_per_s or 1.0) for row in own])
    return pools_of_gathered(gathered, rows, lambda row: counts[row.trial])


def pools_of_gathered(
    gathered: Gathered, rows: Sequence[TrialRow], counts_of: Callable[[TrialRow], Counts]
) -> dict[str, CellPools]:
    """Pool what was gathered of all hosts, by cell.

    Args:
        gathered: Of all hosts.
        rows: All trials.
        counts_of: Gives a trial's counts once more, where clocks differ so much that units do not add up.

    Raises:
        StealtimeError: Counts that are asked for are damaged.
    """
    own = _by_host(rows)
    return {cell: _of_cell(cell, gathered, own, counts_of) for cell in dict.fromkeys(row.cell for row in rows)}


def _of_cell(
    cell: str,
    gathered: Gathered,
    own: Mapping[tuple[str, str], Sequence[TrialRow]],
    counts_of: Callable[[TrialRow], Counts],
) -> CellPools:
    of_host = {host: trials for (name, host), trials in own.items() if name == cell}
    hosts = {host: gathered.hosts[cell, host] for host in of_host}
    if not hosts or len(loops_of(row for trials in of_host.values() for row in trials)) > 1:
        return CellPools(hosts, None)
    rates = [float(pool.units_per_s) for pool in hosts.values()]
    if _are_alike(rates):
        return CellPools(hosts, pool_of(merge_counts(gathered.waiting[cell]), round(fmean(rates))))
    apart = [added([(counts_of(row), row.units_per_s or 1.0) for row in trials]) for trials in of_host.values()]
    return CellPools(hosts, pool_of(*added([(counts, float(rate)) for counts, rate in apart])))


def _by_host(rows: Iterable[TrialRow]) -> dict[tuple[str, str], list[TrialRow]]:
    found: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for row in rows:
        if is_pooled(row):
            found[row.cell, row.host].append(row)
    return found


def pool_of(counts: Counts, units_per_s: int) -> Pool:
    """Compute the figures of some counts."""
    if not len(counts.duration):
        return Pool(units_per_s, 0, (None,) * len(FIGURES))
    ends = int(counts.duration[0]), int(counts.duration[-1])
    return Pool(units_per_s, counts.samples, (ends[0], *counts.percentiles(list(PERCENTILES.values())), ends[1]))


def added(parts: Sequence[tuple[Counts, float]]) -> tuple[Counts, int]:
    """Add counts up in one unit; gives how many of it a second has."""
    rates = [rate for _, rate in parts]
    if _are_alike(rates):
        return merge_counts(one for one, _ in parts), round(fmean(rates))
    return merge_counts(_in_picoseconds(one, round(rate)) for one, rate in parts), _PICOSECONDS


def _are_alike(rates: Sequence[float]) -> bool:
    return max(rates) <= min(rates) * (1 + _RATE_SPREAD_LIMIT)


def _in_picoseconds(counts: Counts, units_per_s: int) -> Counts:
    """Bring durations to picoseconds, in integers that never overflow: seconds, then nanoseconds, then the rest."""
    rate = np.uint64(units_per_s)
    thousand, billion = np.uint64(1_000), np.uint64(10**9)
    rest = (counts.duration % rate) * billion
    whole = (counts.duration // rate) * np.uint64(_PICOSECONDS) + (rest // rate) * thousand
    exact = whole + (rest % rate) * thousand // rate
    return merge_counts([Counts(exact, counts.count, counts.rounded)])


def write_pools(folder: Path, pools: Mapping[str, CellPools]) -> None:
    """Write the pools of a merged run; that of all hosts has no host.

    Raises:
        OSError: They cannot be written.
    """
    told: list[tuple[str, str | None, Pool]] = []
    for cell, one in pools.items():
        told += [(cell, host, pool) for host, pool in one.hosts.items()]
        told += [] if one.together is None else [(cell, None, one.together)]
    rows = [(cell, host, pool.units_per_s, pool.samples, *pool.units) for cell, host, pool in told]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(_SCHEMA)
    arrays = [arrow_column(column, one.type) for column, one in zip(columns, _SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA), folder / POOLS, compression="zstd")


def read_pools(folder: Path, rows: Sequence[TrialRow]) -> dict[str, CellPools] | None:
    """Read the pools of a merged run; None where it has none, or others than those of its rows."""
    try:
        stored = pq.ParquetFile(folder / POOLS).read(use_threads=False).to_pylist()
        told = [tuple(one[name] for name in _SCHEMA.names) for one in stored]
    except (pa.ArrowException, OSError, KeyError):
        return None
    found = {(cell, host): Pool(rate, samples, tuple(units)) for cell, host, rate, samples, *units in told}
    own = _by_host(rows)
    if own.keys() != {key for key in found if key[1] is not None}:
        return None
    return {
        cell: CellPools({host: found[name, host] for name, host in own if name == cell}, found.get((cell, None)))
        for cell in dict.fromkeys(row.cell for row in rows)
    }
