"""What travels of a trial in place of its samples: how often each duration came, the longest ones, and an envelope.

Durations are counted in units of the clock, so that the counts of any trials add up to those of all of them, exactly:
the same percentiles as from all samples. Nothing here is a float. A probe whose durations hardly repeat would have as
many rows as samples: from ``DISTINCT_MOST`` distinct ones on, durations are rounded down to ``KEPT_BITS`` significant
bits, which is at most 0.4 % too little, and the table says so and of how many samples.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime._core import merged_counts
from stealtime.store.sample_units import Samples
from stealtime.store.tables import PARQUET_KEY

DISTINCT_MOST = 1 << 16
"""Ten times what a trial of the probes has; 0.3 MiB."""
KEPT_BITS = 9
LONGEST_KEPT = 256
BUCKETS_MOST = 1 << 16
ROUNDED = f"rounded down to {KEPT_BITS} significant bits"
"""The name of the fallback."""
COUNTS_SCHEMA = pa.schema([("duration", pa.uint64()), ("count", pa.uint64())])
LONGEST_SCHEMA = pa.schema(
    [("index", pa.uint64()), ("start", pa.uint64()), ("duration", pa.uint64()), ("cause", pa.string())]
)
ENVELOPE_SCHEMA = pa.schema([("start", pa.uint64()), ("longest", pa.uint64())])

Units = NDArray[np.uint64]


@dataclass(frozen=True)
class Counts:
    """How often each duration came."""

    duration: Units
    """In units of the clock, ascending, each once; shape (rows,)."""
    count: Units
    """Shape (rows,)."""
    rounded: int = 0
    """How many samples have a duration that was rounded down."""

    @property
    def samples(self) -> int:
        return int(self.count.sum())

    @property
    def total_units(self) -> int:
        """All durations together; exact also beyond 64 bits."""
        return sum(int(one) * int(many) for one, many in zip(self.duration, self.count, strict=True))

    def percentile(self, numerator: int, denominator: int) -> int:
        """Give the exact nearest rank of ``numerator / denominator``, in units; ``ValueError`` if there is nothing."""
        if not len(self.duration):
            raise ValueError("no samples, no percentile")
        rank = max(1, -(-self.samples * numerator // denominator))
        position = int(np.searchsorted(np.cumsum(self.count), np.uint64(rank)))
        return int(self.duration[position])

    def percentiles(self, fractions: Sequence[tuple[int, int]]) -> list[int | None]:
        """Give what :meth:`percentile` gives for several; None for those that so few samples do not resolve."""
        if not len(self.duration):
            return [None] * len(fractions)
        # All of them from one running sum, which takes longer than all else.
        reached = np.cumsum(self.count)
        samples = int(reached[-1])
        ranks = [max(1, -(-samples * numerator // denominator)) for numerator, denominator in fractions]
        found = self.duration[np.searchsorted(reached, np.array(ranks, np.uint64))].tolist()
        return [
            units if samples * (denominator - numerator) >= denominator else None
            for units, (numerator, denominator) in zip(found, fractions, strict=True)
        ]


NOTHING = Counts(np.empty(0, np.uint64), np.empty(0, np.uint64))


@dataclass(frozen=True)
class Travelling:
    """All that travels of a trial's samples."""

    counts: Counts
    longest: "pa.Table"
    envelope: "pa.Table"
    watched_units: int
    """From the start of sample 0 to the end of the last one."""
    backwards: int
    """How many samples are in none of these, as the clock was behind at their end."""


def merge_counts(parts: Iterable[Counts]) -> Counts:
    """Add counts up; the order makes no difference."""
    found = [one for one in parts if len(one.duration)]
    if not found:
        return NOTHING
    duration, count = merged_counts([(one.duration, one.count) for one in found])
    return Counts(duration, count, sum(one.rounded for one in found))


def count_durations(durations: NDArray[Any]) -> Counts:
    duration, count = np.unique(durations.astype(np.uint64), return_counts=True)
    return Counts(duration, count.astype(np.uint64))


def capped(counts: Counts, most: int = DISTINCT_MOST) -> Counts:
    """Round durations down where there are more distinct ones than ``most``; the shortest and longest stay exact."""
    if len(counts.duration) <= most:
        return counts
    exponent = np.frexp(counts.duration.astype(np.float64))[1].astype(np.int64)
    # A float of 53 bits may round a large value up to the next power of two: one bit more is kept then, none less.
    shift = np.maximum(exponent - KEPT_BITS, 0).astype(np.uint64)
    rounded = (counts.duration >> shift) << shift
    rounded[0], rounded[-1] = counts.duration[0], counts.duration[-1]
    is_changed = rounded != counts.duration
    # Their order may change at the first one: it is kept as it is, and others are rounded down to below it.
    merged = merge_counts([Counts(np.maximum(rounded, counts.duration[0]), counts.count)])
    return Counts(merged.duration, merged.count, int(counts.count[is_changed].sum()))


def count_samples(batches: Iterable[Samples], samples: int) -> Travelling:
    """Count a trial's samples.

    Args:
        batches: All of them, in order.
        samples: How many there are.
    """
    counted: list[Counts] = []
    longest = {name: np.empty(0, np.int64) for name in ("index", "start", "duration")}
    width = max(1, -(-samples // BUCKETS_MOST))
    starts: list[NDArray[np.int64]] = []
    tops: list[NDArray[np.int64]] = []
    watched = backwards = 0
    for batch in batches:
        lasting = batch.duration[batch.duration >= 0]
        backwards += len(batch.duration) - len(lasting)
        counted.append(count_durations(lasting))
        if len(counted) > 8:
            counted = [merge_counts(counted)]
        index = np.arange(batch.first, batch.first + len(batch.duration), dtype=np.int64)
        longest = _longest(longest, index, batch)
        # Buckets are cut at the same numbers whatever the batches are.
        cuts = np.flatnonzero(index % width == 0)
        edges = cuts if len(cuts) and cuts[0] == 0 else np.concatenate(([0], cuts))
        top = np.maximum.reduceat(np.maximum(batch.duration, 0), edges)
        if len(tops) and index[0] % width != 0:
            tops[-1][-1] = max(tops[-1][-1], top[0])
            top, edges = top[1:], edges[1:]
        if len(top):
            tops.append(top)
            starts.append(batch.start[edges])
        watched = batch.end_units
    envelope = {
        "start": np.concatenate(starts) if starts else np.empty(0, np.int64),
        "longest": np.concatenate(tops) if tops else np.empty(0, np.int64),
    }
    return Travelling(
        counts=capped(merge_counts(counted)),
        longest=_table({**longest, "cause": [None] * len(longest["index"])}, LONGEST_SCHEMA),
        envelope=_table(envelope, ENVELOPE_SCHEMA),
        watched_units=watched,
        backwards=backwards,
    )


def _longest(
    known: dict[str, NDArray[np.int64]], index: NDArray[np.int64], batch: Samples
) -> dict[str, NDArray[np.int64]]:
    """Keep the longest, the longest first; of equal ones those that came first."""
    if len(batch.duration) > LONGEST_KEPT:
        # Of those that are as long as the last one that fits, all may be among them.
        bar = np.partition(batch.duration, len(batch.duration) - LONGEST_KEPT)[len(batch.duration) - LONGEST_KEPT]
        chosen = np.flatnonzero(batch.duration > bar)
        chosen = np.concatenate((chosen, np.flatnonzero(batch.duration == bar)[: LONGEST_KEPT - len(chosen)]))
    else:
        chosen = np.flatnonzero(batch.duration >= 0)
    together = {
        "index": np.concatenate((known["index"], index[chosen])),
        "start": np.concatenate((known["start"], batch.start[chosen])),
        "duration": np.concatenate((known["duration"], batch.duration[chosen])),
    }
    order = np.lexsort((together["index"], -together["duration"]))[:LONGEST_KEPT]
    return {name: column[order] for name, column in together.items()}


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_table(table: pa.Table, target: Path, description: dict[str, Any]) -> None:
    """Write one of these tables with its key.

    Raises:
        OSError: It cannot be written.
    """
    described = table.replace_schema_metadata({PARQUET_KEY: json.dumps(description).encode()})
    numbers = {field.name: "DELTA_BINARY_PACKED" for field in table.schema if pa.types.is_integer(field.type)}
    pq.write_table(
        described,
        target,
        compression="zstd",
        use_dictionary=[field.name for field in table.schema if not pa.types.is_integer(field.type)],
        column_encoding=numbers,
        write_statistics=False,
    )


def counts_table(counts: Counts) -> pa.Table:
    return _table({"duration": counts.duration, "count": counts.count}, COUNTS_SCHEMA)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def total_rows(paths: Sequence[Path]) -> int:
    return sum(int(pq.ParquetFile(path).metadata.num_rows) for path in paths)
