"""Makes one run of several: every trial's record, its counts, and the tables of the whole."""

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from stealtime.merging.again import folder_of, trials_of
from stealtime.merging.gathering import (
    HERE,
    STAY,
    CountedRow,
    HostParts,
    TrialToWrite,
    processes_for,
    read_hosts,
    write_trials,
)
from stealtime.merging.parts import Chosen, Part, choose, without
from stealtime.merging.pooling import Gathered, pools_of_gathered, write_pools
from stealtime.merging.processes import Processes, processes
from stealtime.merging.tables import write_merged_rows
from stealtime.merging.trial_row import TrialRow
from stealtime.store.counts import Counts
from stealtime.store.documents import CELLS, COUNTS, MANIFEST, PARTIAL_PREFIX
from stealtime.store.elsewhere import write_notes
from stealtime.store.files import remove, write_synced
from stealtime.store.merged import MergedPart, MergedRecord, TrialOrigin
from stealtime.store.model import Cell, LoopRecord, Manifest
from stealtime.store.run import Run
from stealtime.store.travelling import read_counts_file
from stealtime.store.writer import disk_errors, new_run_id
from stealtime.vocabulary.errors import UsageError


@dataclass(frozen=True)
class Merged:
    """What came of it."""

    folder: Path
    manifest: Manifest
    remarks: tuple[str, ...]
    """What is missing, double, left out or doubtful."""


@dataclass(frozen=True)
class _Taken:
    """A trial with its place in the merged run."""

    part: Part
    row: TrialRow
    """As the merged run has it, but for its number."""
    source: Path
    """Its folder in its own run."""
    repetition: int
    """Its number there."""
    samples_sha256: str | None

    @property
    def trial_id(self) -> str:
        return f"{self.row.cell}.r{self.row.repetition}"


def merge(runs: Sequence[Run], output: Path, samples: str = STAY, remarks: Sequence[str] = ()) -> Merged:
    """Write a run that has the trials of several.

    The runs stay as they are. What cannot be read of them is left out and said; the rest is kept.

    Args:
        runs: Of one campaign: its shards, or those of several hosts.
        output: The folder of the new run, which must not exist.
        samples: ``stay``: only where they are is noted; ``here``: they are linked, or copied; else the URL of a place
            that they are put into by their hash.
        remarks: What is already known to be left out.

    Raises:
        UsageError: The folder is there already, or there is nothing to merge.
        StealtimeError: It cannot be written.
    """
    if output.exists():
        raise UsageError(f"-o {output}: it is there already", hint="name a folder that does not exist")
    now = datetime.now(UTC)
    chosen = without(choose(runs, now), remarks)
    with processes(processes_for(sum(trials_of(part.run) for part in chosen.parts))) as workers:
        chosen, trials, gathered = _readable(chosen, workers)
        writing = output.parent / f"{PARTIAL_PREFIX}{output.name}.{os.getpid()}"
        with disk_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            try:
                (writing / CELLS).mkdir(parents=True)
                noted = workers.map(write_trials, [(_to_write(taken, writing), samples) for taken in trials])
                write_notes(writing, {name: note for notes in noted for name, note in notes.items()})
                rows = [replace(taken.row, trial=number) for number, taken in enumerate(trials)]
                chosen = without(chosen, _about_loops(rows))
                write_merged_rows(writing, rows)
                write_pools(writing, pools_of_gathered(gathered, rows, lambda row: _counts_of(writing / row.folder)))
                manifest = _manifest(chosen, rows, now, has_samples=samples == HERE)
                write_synced(writing / MANIFEST, manifest.model_dump_json(indent=2).encode())
                writing.rename(output)
            except BaseException:
                remove(writing)
                raise
    return Merged(output, manifest, chosen.remarks)


def _readable(chosen: Chosen, workers: Processes) -> tuple[Chosen, list[_Taken], Gathered]:
    """Read the trials of all parts, leave out what is damaged, and number repetitions on."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for part in chosen.parts:
        runs[part.host].append(part.run)
    rows: dict[str, list[CountedRow]] = {}
    told: dict[str, list[str]] = {}
    gathered = Gathered()
    for read in workers.map(read_hosts, [HostParts(host, tuple(own)) for host, own in runs.items()]):
        rows |= read.rows
        told |= read.remarks
        gathered.add(read.gathered)
    remarks = [f"{remark} (of {part.host})" for part in chosen.parts for remark in told[part.run.run_id]]
    by_cell: dict[str, list[tuple[Part, CountedRow]]] = defaultdict(list)
    for part in chosen.parts:
        for one in rows[part.run.run_id]:
            by_cell[one.row.cell].append((part, one))
    taken = [one for name in sorted(by_cell) for one in _numbered(by_cell[name])]
    return without(chosen, remarks), taken, gathered


def _numbered(trials: Sequence[tuple[Part, CountedRow]]) -> list[_Taken]:
    """Number the repetitions of a cell: as they were where no two hosts have the same, else on from host to host."""
    ordered = sorted(
        trials, key=lambda one: (one[0].host, one[0].run.manifest.created_at, one[0].run.run_id, one[1].row.repetition)
    )
    numbers = [one.row.repetition for _, one in ordered]
    if len(set(numbers)) < len(numbers):
        numbers = list(range(1, len(ordered) + 1))
    else:
        ordered.sort(key=lambda one: one[1].row.repetition)
        numbers.sort()
    return [
        _Taken(
            part,
            replace(one.row, host=part.host, repetition=number, folder=f"{CELLS}/{one.row.cell}.r{number}"),
            part.run.folder / one.row.folder,
            one.row.repetition,
            one.samples_sha256,
        )
        for (part, one), number in zip(ordered, numbers, strict=True)
    ]


def _to_write(taken: _Taken, folder: Path) -> TrialToWrite:
    return TrialToWrite(
        source=taken.source,
        target=folder / CELLS / taken.trial_id,
        host=taken.part.host,
        repetition=taken.row.repetition,
        origin=TrialOrigin(run_id=taken.part.run.run_id, repetition=taken.repetition),
        is_counted=taken.row.samples is not None,
        samples_sha256=taken.samples_sha256,
    )


def _counts_of(folder: Path) -> Counts:
    return read_counts_file(folder / COUNTS).counts


def _about_loops(rows: Sequence[TrialRow]) -> list[str]:
    """Say where hosts counted loops of different work: those durations are not of one thing."""
    remarks = []
    by_cell: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        if row.loop_iterations is not None:
            by_cell[row.measurement][row.loop_iterations] += 1
    for measurement, iterations in by_cell.items():
        if len(iterations) > 1:
            remarks.append(
                f"{measurement} was measured with loops of {len(iterations)} different lengths "
                f"({min(iterations)} to {max(iterations)} iterations): hosts of different loops are not pooled; "
                "measure them with --loop-of one run"
            )
    return remarks


def _manifest(chosen: Chosen, rows: Sequence[TrialRow], now: datetime, *, has_samples: bool) -> Manifest:
    first = chosen.parts[0].run.manifest
    taken = Counter(row.run for row in rows)
    hosts = {part.host: part.facts for part in chosen.parts}
    cells: dict[str, Cell] = {}
    loops: dict[int, LoopRecord] = {}
    for part in chosen.parts:
        cells |= {cell.name: cell for cell in part.run.manifest.planned or ()}
        loops = {loop.loop_ns: loop for loop in part.run.manifest.loops} | loops
    each = [max(numbers) for numbers in _repetitions(rows).values()]
    is_even = len(set(each)) <= 1 and not any(cell not in _repetitions(rows) for cell in cells)
    parts = [
        MergedPart(
            run_id=part.run.run_id,
            folder=folder_of(part.run),
            host=part.host,
            identity=part.identity,
            created_at=part.run.manifest.created_at,
            finished_at=part.run.manifest.finished_at,
            state=part.run.manifest.state,
            spread=part.run.manifest.spread,
            trials=taken[part.run.run_id],
        )
        for part in chosen.parts
    ]
    is_finished = all(part.state == "finished" for part in parts)
    return first.model_copy(
        update={
            "run_id": new_run_id(now.strftime("%Y%m%dT%H%M%SZ"), f"{first.campaign_name}-merged"),
            "created_at": min(part.created_at for part in parts),
            "taken_up_at": now,
            "finished_at": now,
            "state": "finished" if is_finished else "interrupted",
            "hosts": hosts,
            "identity": None,
            "spread": None,
            "provenance": [one for part in chosen.parts for one in part.run.manifest.provenance],
            # Of hosts on which different platforms can be had, nobody knows how many trials a cell was to have.
            "planned": list(cells.values()) if is_even or len(hosts) == 1 else None,
            "repetitions": max(each, default=first.repetitions),
            "unobtainable": sorted({one for part in chosen.parts for one in part.run.manifest.unobtainable}),
            "findings": [one for part in chosen.parts for one in part.run.manifest.findings],
            "loops": list(loops.values()),
            "host_threads": [],
            "merged": MergedRecord(at=now, parts=parts, remarks=list(chosen.remarks), has_samples=has_samples),
        }
    )


def _repetitions(rows: Sequence[TrialRow]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row.cell].append(row.repetition)
    return found
