"""What a trial of ``disk`` or ``net`` keeps, and how its rows are read again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stealtime.campaigns.parameters import Asked
from stealtime.store.run import Trial
from stealtime.store.tables import EVENTS_SCHEMA
from stealtime.studies.devices.parameters import DiskParameters, NetParameters
from stealtime.studies.devices.requests import read_requests
from stealtime.studies.devices.results import DeviceRequests
from stealtime.vocabulary.errors import UsageError
from stealtime.wire.devices import MarkedTarget, ScratchTarget
from stealtime.wire.message import Echoes, Layout, Transfers

ORIGIN, HZ = 1_000, 2e9
SATURATED = 0xFFFF_FFFF


def trial(
    folder: Path, layout: Layout, columns: dict[str, list[int]], events: list[tuple[str, int, int]], base: int = 0
) -> Trial:
    """Make a stored trial of these rows; an event is its kind, index and value."""
    pq.write_table(pa.table({name: pa.array(values, pa.uint32()) for name, values in columns.items()}), folder / "r")
    kinds, index, value = [list(one) for one in zip(*events, strict=True)] if events else [[], [], []]
    pq.write_table(
        pa.table([kinds, index, [0] * len(kinds), value], schema=EVENTS_SCHEMA), folder / "e", store_schema=True
    )
    result = DeviceRequests(
        layout=layout, engine="io_uring", first_byte=1 << 20, outward_base_units=base, counts={"errors": 0}
    )
    outcome = SimpleNamespace(
        clock=SimpleNamespace(units_per_s=HZ, origin_units=ORIGIN),
        request=SimpleNamespace(probe=SimpleNamespace(block_bytes=4096)),
    )
    made = SimpleNamespace(
        record=SimpleNamespace(outcome=outcome, trial_id="t"),
        result=lambda _model: result,
        tables=lambda name: (folder / {"requests": "r", "events": "e"}[name],),
    )
    return cast(Trial, made)


def test_times_follow_from_gaps_and_true_values_replace_what_did_not_fit(tmp_path: Path) -> None:
    rows = {
        "gap": [100, 10, SATURATED],
        "duration": [90, 95, SATURATED],
        "wait": [0, 5, SATURATED],
        "block": [0, 7, 2],
    }
    long = 1 << 33
    events = [("saturated_gap", 2, long), ("saturated", 2, long + 7), ("saturated_wait", 2, long), ("pause", 2, 40)]
    requests = read_requests(trial(tmp_path, Transfers(), rows, events))
    ended = [1_100, 1_110, 1_150 + long]
    assert requests.ended.tolist() == ended
    assert requests.due.tolist() == [1_010, 1_015, 1_143]
    assert requests.submitted.tolist() == [1_010, 1_020, 1_143 + long]
    assert requests.response_ns.tolist() == [45.0, 47.5, (long + 7) / 2]
    assert requests.offset_bytes is not None
    assert requests.offset_bytes.tolist() == [1 << 20, (1 << 20) + 7 * 4096, (1 << 20) + 2 * 4096]
    assert requests.elapsed_s == pytest.approx((150 + long) / HZ)
    assert requests.answered is None
    assert requests.peer_received is None


@pytest.mark.parametrize("base", [-(1 << 40), 1 << 40])
def test_the_way_outward_is_the_peers_reading_less_ours(tmp_path: Path, base: int) -> None:
    rows = {
        "gap": [100, 50],
        "duration": [90, 40],
        "wait": [0, 0],
        "outward": [1 << 30, 0],
        "residence": [3, 0],
        "answered": [1, 0],
    }
    requests = read_requests(trial(tmp_path, Echoes(), rows, [], base))
    assert requests.peer_received is not None
    assert requests.answered is not None
    assert requests.peer_received[0] == base + (1 << 30)
    assert np.array_equal(requests.answered, [True, False])


def test_a_marked_disk_is_taken_on_any_device_and_a_file_of_the_host_natively() -> None:
    assert DiskParameters(device="virtio-blk").target == MarkedTarget(device="virtio-blk")
    native = DiskParameters(backing="memory", size_bytes=1 << 20)
    assert native.target == ScratchTarget(folder="/dev/shm", bytes=1 << 20)
    assert DiskParameters().stored == {}, "defaults are not stored"
    assert "writes of 4 KiB, depth 32" in DiskParameters(operation="write", depth=32).words
    request = DiskParameters(interval_ns=1_000_000).request({}, 3)
    assert (request.interval_ns, request.seed) == (1_000_000, 3)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (DiskParameters(block_bytes=1000), "no multiple of 512"),
        (DiskParameters(depth=1024, size_bytes=1 << 20), "1024 blocks do not fit into 1 MiB"),
        (DiskParameters(interval_ns=999), "no timer keeps"),
        (DiskParameters(interval_ns=2_000_000_000), "longer than a trial of 1s"),
        (NetParameters(peer="192.0.2.1:7007", interval_ns=10), "no timer keeps"),
    ],
)
def test_what_the_agent_would_refuse_is_refused_before_a_boot(
    parameters: DiskParameters | NetParameters, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parameters.refuse(Asked(duration_ns=1_000_000_000, priority=80, repetition=1))
    assert refused.value.hint


def test_a_result_holds_what_was_counted(tmp_path: Path) -> None:
    from stealtime.studies.devices.results import REQUESTS

    counters = {"engine_aio": 1, "errors": 0, "lost_messages": 2, "outward_base_units": (1 << 64) - 5, "recorded": 9}
    made: Any = REQUESTS.make(cast(Any, SimpleNamespace(layout=Echoes(), counters=counters)))
    assert (made.engine, made.outward_base_units, made.counts) == ("aio", -5, {"errors": 0, "lost_messages": 2})
