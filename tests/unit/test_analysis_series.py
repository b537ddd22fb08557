"""Samples from disk to figures: the right ones, without a copy, and one sentence where a file is not whole."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic_run import KnownRun, write_synthetic_run

from stealtime._core import Series
from stealtime.studies.latency.analysis.series import pool_of, read_series
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime._core import InjectedMatchDict

RATE = 2.1e9
CALIBRATED_FLOOR = 90


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KnownRun:
    return write_synthetic_run(tmp_path_factory.mktemp("runs") / "known")


def write_trial(
    folder: Path,
    columns: dict[str, Any],
    events: list[tuple[str, int, int, int]] | None = None,
    layout: dict[str, Any] | None = None,
) -> Path:
    """Write the tables of one trial, in which 1 unit = 1 ns."""
    folder.mkdir()
    key = json.dumps({"schema_version": 1, "layout": layout or {"name": "tiled"}, "units_per_s": 1e9})
    rows = list(zip(*(events or []), strict=True)) or [(), (), (), ()]
    names = ("kind", "index", "start", "duration")
    kinds = (pa.string(), pa.uint64(), pa.uint64(), pa.uint64())
    tables = {
        "samples": pa.table(columns),
        "events": pa.table({name: pa.array(row, kind) for name, kind, row in zip(names, kinds, rows, strict=True)}),
    }
    for name, table in tables.items():
        pq.write_table(table.replace_schema_metadata({"stealtime": key}), folder / f"{name}.parquet", row_group_size=7)
    return folder


def u32(*values: int) -> Any:
    return np.asarray(values, dtype=np.uint32)


def test_every_cell_gives_its_known_maximum_at_its_known_time(known: KnownRun) -> None:
    measured = [cell for cell in known.cells.values() if cell.count]
    assert len(measured) > 10
    for cell in measured:
        series = read_series(cell.folder, None)
        summary = series.summary()
        assert summary["count"] == len(series) == cell.count
        assert summary["min_ns"] == pytest.approx(cell.min_ns)
        assert summary["max_ns"] == pytest.approx(cell.max_ns)
        assert summary["max_at_s"] == pytest.approx(cell.max_at_s)
        worst = series.worst(1)[0]
        assert (worst["start_s"], worst["duration_ns"]) == (summary["max_at_s"], summary["max_ns"])
        envelope = series.envelope(100)
        assert envelope["max_ns"].max() == summary["max_ns"]
        assert envelope["count"].sum() == cell.count
        curve = series.percentile_curve()
        assert (curve["tail_share"][-1], curve["value_ns"][-1]) == (0.0, summary["max_ns"])
        histogram = series.histogram()
        assert histogram["log_count"].sum() == cell.count
        assert len(histogram["linear_edge_ns"]) == len(histogram["linear_count"]) + 1


def test_percentiles_are_those_of_the_sorted_column(known: KnownRun) -> None:
    cell = known.find("native.alone.tick-68us.r1")
    ordered = np.sort(pq.read_table(cell.folder / "samples.parquet")["duration"].to_numpy())
    summary = read_series(cell.folder, None).summary()
    figures = (summary["p50_ns"], summary["p99_ns"], summary["p9999_ns"])
    for tail, value in zip((2, 100, 10_000), figures, strict=True):
        assert value == pytest.approx(ordered[len(ordered) - len(ordered) // tail - 1] * 1e9 / RATE, rel=1e-12)
    assert summary["unresolved"] == ["p99999_ns"]


def test_columns_are_borrowed_and_can_no_longer_be_changed() -> None:
    durations = u32(*range(100, 200))
    references_before = durations.base is None and durations.flags.writeable
    series = Series(durations, None, None, None, None, None, "tiled", None, 1e9, None)
    assert references_before
    with pytest.raises(ValueError, match="read-only"):
        durations[0] = 1
    assert series.summary()["min_ns"] == 100.0


def test_a_strided_column_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        Series(u32(*range(10))[::2], None, None, None, None, None, "tiled", None, 1e9, None)


def test_saturated_values_count_with_their_true_value(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", {"duration": u32(100, 2**32 - 1, 100)}, [("saturated", 1, 100, 9_000_000_000)])
    summary = read_series(trial, CALIBRATED_FLOOR).summary()
    assert (summary["max_ns"], summary["max_at_s"]) == (9e9, 100e-9)
    assert (summary["floor_ns"], summary["max_overhead_ns"]) == (90.0, 9e9 - 90)
    assert summary["span_s"] == pytest.approx(9.0000002)


def test_a_saturated_row_without_its_event_is_an_error(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", {"duration": u32(100, 2**32 - 1)})
    with pytest.raises(StealtimeError, match="0 saturated values of `duration` are listed, but 1 rows"):
        read_series(trial, CALIBRATED_FLOOR)


def test_repetitions_are_pooled_exactly(tmp_path: Path) -> None:
    parts = [u32(*range(100, 300)), u32(*range(250, 650), 7)]
    series = [
        read_series(write_trial(tmp_path / str(n), {"duration": part}), CALIBRATED_FLOOR)
        for n, part in enumerate(parts)
    ]
    ordered = np.sort(np.concatenate(parts))
    digests = [one.digest() for one in series]
    pool = pool_of(digests, [1e9, 1e9])
    for one in series:
        pool.add(one)
    pooled = pool.summary()
    assert (pooled["p50_ns"], pooled["p90_ns"]) == (ordered[301 - 1], ordered[541 - 1])
    assert (pooled["max_part"], pooled["max_index"], pooled["min_ns"]) == (1, 399, 7.0)
    with pytest.raises(StealtimeError, match="clock rates from 1000000000 to 1001000000 Hz"):
        pool_of(digests, [1e9, 1.001e9])
    with pytest.raises(ValueError, match="0 of the 2 series of the pool were added"):
        pool_of(digests, [1e9, 1e9]).summary()


@pytest.mark.parametrize("name", ["samples.parquet", "events.parquet"])
@pytest.mark.parametrize("kept", [0, 3, 200])
def test_a_parquet_file_cut_short_is_named(tmp_path: Path, name: str, kept: int) -> None:
    trial = write_trial(tmp_path / "t", {"duration": u32(1, 2, 3)})
    (trial / name).write_bytes((trial / name).read_bytes()[:kept])
    with pytest.raises(StealtimeError, match=f"{name} is not a whole Parquet file") as caught:
        read_series(trial, CALIBRATED_FLOOR)
    assert caught.value.hint is not None
    assert "\n" not in caught.value.message


def test_damage_inside_a_parquet_file_is_named(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**31, 5000).astype(np.uint32)
    trial = write_trial(tmp_path / "t", {"duration": values})
    data = bytearray((trial / "samples.parquet").read_bytes())
    data[4:40] = b"\xff" * 36
    (trial / "samples.parquet").write_bytes(data)
    with pytest.raises(StealtimeError, match=r"samples\.parquet is damaged"):
        read_series(trial, CALIBRATED_FLOOR)


@pytest.mark.parametrize(
    ("columns", "layout", "message"),
    [
        ({"length": u32(1)}, None, "has no column 'duration'"),
        ({"duration": np.asarray([1.0])}, None, "is double, not uint32"),
        ({"duration": u32(1)}, {"name": "gapped"}, "has no column 'gap'"),
        ({"duration": u32(1)}, {"name": "woven"}, "unknown layout 'woven'"),
        ({"duration": u32(1)}, {"name": "periodic"}, "does not say its layout"),
        ({"duration": u32()}, None, "there are no samples"),
        ({"duration": pa.array([1, None], pa.uint32())}, None, "has 1 empty rows"),
    ],
)
def test_a_wrong_schema_is_named(
    tmp_path: Path, columns: dict[str, Any], layout: dict[str, Any] | None, message: str
) -> None:
    trial = write_trial(tmp_path / "t", columns, layout=layout)
    with pytest.raises(StealtimeError, match=message) as caught:
        read_series(trial, CALIBRATED_FLOOR)
    assert str(trial) in caught.value.message


def matched(trial: Path) -> "InjectedMatchDict":
    events = pq.read_table(trial / "events.parquet")
    injected = events.filter(pc.equal(events["kind"], "injected"))
    columns = (injected[name].to_numpy() for name in ("start", "duration"))
    return read_series(trial, CALIBRATED_FLOOR).match_injected(*columns)


def test_injected_stalls_are_found_with_their_error(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    durations = (1000 + random.exponential(20, 20_000)).astype(np.int64)
    hit = np.sort(random.choice(np.arange(10, 19_990), 200, replace=False))
    cost = 150
    stolen = random.integers(5_000, 400_000, len(hit))
    durations[hit] += stolen + cost
    starts = np.cumsum(durations) - durations
    events = [
        ("injected", number, int(starts[index]) + 300, int(length))
        for number, (index, length) in enumerate(zip(hit, stolen, strict=True))
    ]
    events.append(("injected", 200, int(starts[-1]), 10**12))
    trial = write_trial(tmp_path / "t", {"duration": durations.astype(np.uint32)}, events)
    match = matched(trial)
    assert (match["total"], match["found"], match["within_tolerance"], match["not_observable"]) == (200, 200, 200, 1)
    assert match["error_p50_ns"] == pytest.approx(cost, abs=15)
    assert match["error_max_ns"] is not None
    assert match["error_max_ns"] < 500
    assert match["excess_ns"] - match["expected_ns"] == pytest.approx(np.full(200, cost), abs=350)


def test_a_stall_that_the_samples_do_not_show_is_not_found(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "t", {"duration": u32(*[1000] * 500)}, [("injected", 0, 20_500, 50_000)])
    match = matched(trial)
    assert (match["total"], match["found"], match["error_max_ns"]) == (1, 0, None)


def test_a_theft_shows_as_lateness_of_the_release_inside_it(tmp_path: Path) -> None:
    latency = [100] * 50
    latency[20] = 3_640
    events = [("injected", 0, 19_500, 4_100), ("injected", 1, 30_200, 300)]
    trial = write_trial(tmp_path / "t", {"duration": u32(*latency)}, events, {"name": "periodic", "interval": 1000})
    match = matched(trial)
    assert (match["total"], match["found"], match["not_observable"]) == (1, 1, 1)
    assert (match["expected_ns"].tolist(), match["excess_ns"].tolist()) == ([3600.0], [3640.0])
