"""Hosts made of recorded trials: 16 pieces of 5 s of `tick` in a User-Mode Linux guest, drawn anew for each trial.

What a host has beside the others is put into the counts: they are equal but for chance, and for that.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from stealtime.merging.rows import figures_of_counts
from stealtime.site.peers import LEVELS, STALLS, TrialValues
from stealtime.store.counts import ENVELOPE_SCHEMA, LONGEST_SCHEMA, Counts, counts_table, merge_counts, write_table

RECORDED = Path(__file__).parents[1] / "recorded"
PIECES_A_TRIAL = 4
SECONDS_A_PIECE = 5.0


@dataclass(frozen=True)
class SimulatedHost:
    """One host, and in what it differs from the others."""

    name: str
    slower: tuple[int, int] = (1, 1)
    """All durations times this ratio."""
    stall_ns: int = 0
    stalls_a_trial: int = 0
    microcode: str = "0x100"


@cache
def pieces() -> tuple[list[Counts], float]:
    """Give what was recorded, and the rate of its clock."""
    table = pq.read_table(RECORDED / "tick_pieces.parquet")
    rate = json.loads(table.schema.metadata[b"stealtime"])["units_per_s"]
    piece, duration, count = (table.column(name).to_numpy() for name in ("piece", "duration", "count"))
    return [
        Counts(duration[piece == number].astype(np.uint64), count[piece == number].astype(np.uint64))
        for number in range(int(piece.max()) + 1)
    ], float(rate)


def draw_trial(host: SimulatedHost, chance: np.random.Generator) -> Counts:
    """Give the counts of one trial of a host."""
    recorded, rate = pieces()
    drawn = merge_counts(recorded[number] for number in chance.integers(0, len(recorded), PIECES_A_TRIAL))
    above, below = host.slower
    slowed = merge_counts([Counts(drawn.duration * np.uint64(above) // np.uint64(below), drawn.count)])
    if not host.stalls_a_trial:
        return slowed
    # A sample that a stall hits lasts as long as that and as itself.
    stalled = np.sort(
        slowed.duration[0]
        + np.uint64(host.stall_ns * rate / 1e9)
        + chance.integers(0, 1000, host.stalls_a_trial).astype(np.uint64)
    )
    duration, count = np.unique(stalled, return_counts=True)
    return merge_counts([slowed, Counts(duration, count.astype(np.uint64))])


def values_of(hosts: Sequence[SimulatedHost], repetitions: int, chance: np.random.Generator) -> Iterator[TrialValues]:
    """Give the figures of all trials of some hosts."""
    _, rate = pieces()
    for host in hosts:
        for _ in range(repetitions):
            figures = figures_of_counts(draw_trial(host, chance), rate, None)
            levels = dict(zip(LEVELS, ("min_units", "p50_units", "p99_units", "p999_units"), strict=True))
            yield TrialValues(
                host=host.name,
                group=("Xeon", host.microcode, "6.12"),
                cell="uml.alone.tick-68us",
                work="64588",
                levels={
                    name: None if (units := figures[key]) is None else units * 1e9 / rate
                    for name, key in levels.items()
                },
                stalls=dict(zip(STALLS, (figures["stalls_1ms"], figures["stalls_4ms"]), strict=True)),
                watched_s=PIECES_A_TRIAL * SECONDS_A_PIECE,
                cause=None,
            )


@dataclass(frozen=True)
class SimulatedRun:
    """A run of a host to write."""

    host: SimulatedHost
    at: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    repetitions: int = 4
    cells: int = 1
    spread: dict[str, Any] | None = None


def write_run(folder: Path, run: SimulatedRun, chance: np.random.Generator) -> Path:
    """Write a run as it travels from a host: without samples."""
    _, rate = pieces()
    identity = {"name": run.host.name, "id": f"given:{run.host.name}", "source": "given"}
    manifest = json.loads((RECORDED / "manifest.json").read_text())
    name = f"{run.at:%Y%m%dT%H%M%SZ}-quick-{run.host.name}"
    manifest["hosts"]["local"]["microcode"] = {"value": run.host.microcode}
    manifest |= {
        "run_id": name,
        "created_at": run.at.isoformat(),
        "finished_at": (run.at + timedelta(minutes=2)).isoformat(),
        "identity": identity,
        "spread": run.spread or {"kind": "each-host"},
        "repetitions": run.repetitions,
        "state": "finished",
    }
    record = json.loads((RECORDED / "trial.json").read_text())
    planned = []
    for cell in range(run.cells):
        record["cell"]["parameters"]["loop_ns"] = 68_000 + 1_000 * cell
        planned.append(json.loads(json.dumps(record["cell"])))
        for repetition in range(1, run.repetitions + 1):
            counts = draw_trial(run.host, chance)
            record |= {
                "repetition": repetition,
                "started_at": (run.at + timedelta(seconds=20 * repetition)).isoformat(),
            }
            trial = folder / name / "cells" / f"uml.alone.tick-{68 + cell}us.r{repetition}"
            trial.mkdir(parents=True)
            (trial / "trial.json").write_text(json.dumps(record))
            _write_tables(trial, counts, rate)
    manifest["planned"] = planned
    (folder / name / "manifest.json").write_text(json.dumps(manifest))
    return folder / name


def _write_tables(trial: Path, counts: Counts, rate: float) -> None:
    description = {
        "schema_version": 1,
        "layout": {"name": "tiled"},
        "units_per_s": rate,
        "watched_units": counts.total_units,
        "sha256": {"samples.parquet": "0" * 64, "events.parquet": "0" * 64},
    }
    import pyarrow as pa

    top = counts.duration[::-1][:256]
    longest = pa.Table.from_arrays(
        [
            pa.array(np.arange(len(top)), pa.uint64()), pa.array(np.cumsum(top) - top, pa.uint64()),
            pa.array(top, pa.uint64()), pa.array([None] * len(top), pa.string()),
        ],
        schema=LONGEST_SCHEMA,
    )  # fmt: skip
    empty = pa.Table.from_arrays([pa.array([], pa.uint64()), pa.array([], pa.uint64())], schema=ENVELOPE_SCHEMA)
    write_table(longest, trial / "longest.parquet", description)
    write_table(empty, trial / "envelope.parquet", description)
    write_table(counts_table(counts), trial / "counts.parquet", description)
