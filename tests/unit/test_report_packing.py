import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.studies.latency.page.packing import (
    BUCKETS_A_REPORT,
    FEWEST_BUCKETS,
    MOST_BUCKETS,
    Envelope,
    PackedEnvelope,
    buckets_a_cell,
    pack_envelope,
)

durations_ns = st.floats(0.01, 1e15)


def unpack(packed: PackedEnvelope) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Undo the packing as ``templates/envelope.js`` does: maxima, minima (ns, NaN if empty), times (s)."""
    description = packed.description
    buckets = description["buckets"]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed.planes)), np.uint8).reshape(5, buckets)
    durations = []
    for high, low in ((0, 1), (2, 3)):
        codes = planes[high].astype(np.int64) << 8 | planes[low]
        values = np.exp2(description["log2_offset"] + (codes - 1) / description["steps_per_octave"])
        durations.append(np.where(codes == 0, np.nan, values))
    times = (np.arange(buckets) + planes[4] / 256) * description["bucket_s"]
    return durations[0], durations[1], times


@given(
    st.lists(st.tuples(durations_ns, durations_ns, st.floats(0, 0.999)), min_size=1, max_size=60),
    st.floats(1e-7, 10),
    st.randoms(use_true_random=False),
)
def test_packing_encloses_the_samples_within_a_step(entries, bucket_s, random) -> None:  # type: ignore[no-untyped-def]
    bucket = np.sort(np.array(random.sample(range(200), len(entries))))
    first, second, share = np.array(entries).T
    minima, maxima = np.minimum(first, second), np.maximum(first, second)
    at = (bucket + share) * bucket_s
    packed = pack_envelope(Envelope(bucket_s, bucket, minima, maxima, at), end_s=200 * bucket_s)
    unpacked_maxima, unpacked_minima, times = unpack(packed)

    step = 2 ** (1.0001 / packed.description["steps_per_octave"])
    assert np.all(unpacked_maxima[bucket] >= maxima * (1 - 1e-9)), "a maximum was rounded down"
    assert np.all(unpacked_maxima[bucket] <= maxima * step)
    assert np.all(unpacked_minima[bucket] <= minima * (1 + 1e-9)), "a minimum was rounded up"
    assert np.all(unpacked_minima[bucket] >= minima / step)
    assert np.all(np.abs(times[bucket] - at) <= bucket_s / 256 + 1e-9)
    empty = np.setdiff1d(np.arange(len(unpacked_maxima)), bucket)
    assert np.all(np.isnan(unpacked_maxima[empty])), "an empty bucket looks as if it held samples"


def test_duration_of_nought_is_not_taken_for_an_empty_bucket() -> None:
    one = np.array([0])
    packed = pack_envelope(Envelope(1.0, one, np.array([0.0]), np.array([0.0]), np.array([0.5])), end_s=1.0)
    assert unpack(packed)[0][0] == pytest.approx(2**-10)


@given(st.integers(1, 10_000))
def test_report_never_holds_more_buckets_than_planned(cells: int) -> None:
    buckets = buckets_a_cell(cells)
    assert FEWEST_BUCKETS <= buckets <= MOST_BUCKETS
    assert buckets == FEWEST_BUCKETS or buckets * cells <= BUCKETS_A_REPORT


def test_few_cells_get_the_finest_envelope() -> None:
    assert buckets_a_cell(16) == MOST_BUCKETS
    assert buckets_a_cell(24) == MOST_BUCKETS // 2
