"""Neighbours put beside a made-up trial, with the times their load was on known."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stealtime.store.model import NeighbourRecord, PlacementRecord, ShareRecord, TrialRecord
from stealtime.store.surroundings import NEIGHBOURS_SCHEMA
from stealtime.vocabulary.clocks import ClockReading
from stealtime.wire.load import LoadOutcome, LoadRequest, MemoryLoad

RATE_BYTES_PER_S = 4.5e9
SCALED = "all is 2 CPUs here, 4 in the paper"


def add_neighbour(folder: Path, phases_s: list[tuple[float, float]], host_origin: float, tsc_hz: float) -> None:
    """Write a neighbour into the trial in ``folder``.

    Args:
        folder: Of a trial with an outcome.
        phases_s: Start and end of each phase, from sample 0 on.
        host_origin: The host's counter at sample 0.
        tsc_hz: Of the host.
    """
    path = folder / "trial.json"
    record = TrialRecord.model_validate_json(path.read_bytes())
    start = np.array([host_origin + begin * tsc_hz for begin, _ in phases_s])
    duration = np.array([(end - begin) * tsc_hz for begin, end in phases_s])
    columns = {
        "neighbour": np.ones(len(start), np.uint16),
        "thread": np.full(len(start), 5000, np.uint32),
        "start": start.round().astype(np.uint64),
        "duration": duration.round().astype(np.uint64),
        "work": np.full(len(start), 1_000_000, np.uint64),
    }
    pq.write_table(pa.table(columns, schema=NEIGHBOURS_SCHEMA), folder / "neighbours.parquet")
    reading = ClockReading(tsc=round(host_origin), monotonic_raw_ns=0, monotonic_ns=0, bracket_tsc=64)
    neighbour = NeighbourRecord(
        name="neighbour 1",
        kind="machine",
        platform=record.cell.platform,
        cpus=[1],
        share=ShareRecord(quota_percent=50.0),
        load=LoadRequest(kind=MemoryLoad(block_bytes=9_000_000), on_ns=5_000_000_000, off_ns=5_000_000_000),
        outcome=LoadOutcome(
            unit="bytes",
            work=10**12,
            on_ns=10**9,
            rate_per_s=RATE_BYTES_PER_S,
            tsc_hz=tsc_hz,
            start=reading,
            end=reading,
            thread_ids=[5000],
            findings=[],
        ),
    )
    placement = PlacementRecord(vcpu_cpus=[[0, 1]], emulator_cpus=[0], housekeeping_cpus=[0], scaled=SCALED)
    changed = record.model_copy(update={"neighbours": [neighbour], "placement": placement})
    path.write_text(changed.model_dump_json(indent=2))
