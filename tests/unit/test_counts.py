"""Counts in place of samples: exact, in integers, the same however the samples were divided."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stealtime.store.counts import (
    KEPT_BITS,
    LONGEST_KEPT,
    NOTHING,
    Counts,
    capped,
    count_durations,
    count_samples,
    merge_counts,
)
from stealtime.store.sample_units import Samples, read_units
from stealtime.store.tables import EVENTS_SCHEMA

SHARDS = 100


def _batches(durations: np.ndarray, edges: list[int]) -> list[Samples]:
    ends = np.cumsum(durations)
    cuts = [0, *sorted(edges), len(durations)]
    return [
        Samples(begin, (ends - durations)[begin:end], durations[begin:end], int(ends[end - 1]))
        for begin, end in pairwise(cuts)
        if end > begin
    ]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3_000), st.integers(1, 2**40))
def test_the_counts_of_a_hundred_shards_are_those_of_the_whole_bit_for_bit(seed: int, samples: int, most: int) -> None:
    chance = np.random.default_rng(seed)
    durations = chance.integers(0, most, samples, dtype=np.int64)
    whole = count_durations(durations)
    shards = [
        count_durations(durations[chance_of == shard])
        for chance_of in [chance.integers(0, SHARDS, samples)]
        for shard in range(SHARDS)
    ]
    chance.shuffle(shards)
    merged = merge_counts(shards)
    assert merged.duration.tobytes() == whole.duration.tobytes()
    assert merged.count.tobytes() == whole.count.tobytes()
    assert merged.total_units == int(durations.sum())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 2_000))
def test_a_percentile_of_counts_is_the_nearest_rank_of_all_samples(seed: int, samples: int) -> None:
    durations = np.random.default_rng(seed).integers(1, 500, samples)
    ordered = np.sort(durations)
    for numerator, denominator in ((50, 100), (99, 100), (999, 1_000)):
        rank = max(1, -(-samples * numerator // denominator))
        assert count_durations(durations).percentile(numerator, denominator) == ordered[rank - 1]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 2_000), st.lists(st.integers(1, 1_999), max_size=12, unique=True))
def test_what_travels_does_not_depend_on_how_samples_came(seed: int, samples: int, edges: list[int]) -> None:
    durations = np.random.default_rng(seed).integers(1, 400, samples).astype(np.int64)
    inside = [edge for edge in edges if edge < samples]
    whole, parts = (count_samples(_batches(durations, cuts), samples) for cuts in ([], inside))
    assert whole.counts.duration.tobytes() == parts.counts.duration.tobytes()
    assert whole.longest.equals(parts.longest)
    assert whole.envelope.equals(parts.envelope)
    assert whole.watched_units == parts.watched_units == durations.sum()
    expected = sorted(((-length, index) for index, length in enumerate(durations.tolist())))[:LONGEST_KEPT]
    assert whole.longest.column("index").to_pylist() == [index for _, index in expected]


def test_durations_that_do_not_repeat_are_rounded_down_and_counted() -> None:
    durations = np.random.default_rng(3).integers(10_000, 2**40, 5_000)
    exact = count_durations(durations)
    rounded = capped(exact, most=1_000)
    assert rounded.samples == 5_000
    assert len(rounded.duration) < len(exact.duration)
    assert (rounded.duration[0], rounded.duration[-1]) == (exact.duration[0], exact.duration[-1])
    assert 4_000 < rounded.rounded <= 5_000
    for numerator in (50, 90, 99):
        is_, was = rounded.percentile(numerator, 100), exact.percentile(numerator, 100)
        assert was * (1 - 2 / 2**KEPT_BITS) <= is_ <= was


def test_counts_below_the_cap_stay_as_they_are() -> None:
    exact = count_durations(np.arange(100))
    assert capped(exact, most=100) is exact


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        merge_counts([NOTHING, Counts(NOTHING.duration, NOTHING.count)]).percentile(50, 100)


def test_a_clock_that_went_back_makes_no_duration_and_is_counted(tmp_path: Path) -> None:
    """Seen on a virtual machine whose counter stepped back by 0.2 ms; the agent stores what wraps around."""
    saturated = 2**32 - 1
    table = pa.table(
        {"gap": pa.array([0, saturated, 4], pa.uint32()), "duration": pa.array([10, saturated, 7], pa.uint32())}
    )
    pq.write_table(table, tmp_path / "samples.parquet")
    went_back = [("saturated", 1, 0, 2**64 - 579_834), ("saturated_gap", 1, 0, 2**64 - 1_396)]
    events = pa.Table.from_pylist(
        [dict(zip(EVENTS_SCHEMA.names, row, strict=True)) for row in went_back], EVENTS_SCHEMA
    )
    pq.write_table(events, tmp_path / "events.parquet")
    batches = list(read_units([tmp_path / "samples.parquet"], [tmp_path / "events.parquet"], "gapped", None))
    found = count_samples(batches, 3)
    assert (found.backwards, found.counts.samples, found.watched_units) == (1, 2, 21)
    assert found.longest["duration"].to_pylist() == [10, 7]


@pytest.mark.parametrize("spread", [1 << 17, 1 << 22, 1 << 50])
def test_many_counts_add_up_as_few_do(spread: int) -> None:
    chance = np.random.default_rng(spread)
    parts = [count_durations(chance.integers(1_000, 1_000 + spread, 40_000)) for _ in range(6)]
    parts.append(count_durations(np.array([999, 2**63 + 7], np.uint64)))
    added = merge_counts(parts)
    values, places = np.unique(np.concatenate([one.duration for one in parts]), return_inverse=True)
    counts = np.zeros(len(values), np.uint64)
    np.add.at(counts, places, np.concatenate([one.count for one in parts]))
    assert added.duration.dtype == added.count.dtype == np.uint64
    assert np.array_equal(added.duration, values)
    assert np.array_equal(added.count, counts)
