"""Makes one run of several: every trial's record, its counts, and the tables of the whole."""

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stealtime.merging.parts import Chosen, Part, choose, without
from stealtime.merging.tables import RunTables, TrialRow, tables_of, write_run_tables
from stealtime.store.counts import Counts
from stealtime.store.documents import CELLS, COUNTS, ELSEWHERE, MANIFEST, PARTIAL_PREFIX, TRIAL
from stealtime.store.durations import SAMPLES
from stealtime.store.elsewhere import Elsewhere, ElsewhereFile, put
from stealtime.store.files import remove, write_synced
from stealtime.store.merged import MergedPart, MergedRecord, TrialOrigin
from stealtime.store.model import Cell, LoopRecord, Manifest
from stealtime.store.run import Run
from stealtime.store.tables import read_description
from stealtime.store.writer import disk_errors, new_run_id
from stealtime.vocabulary.errors import UsageError

STAY, HERE = "stay", "here"
_SAMPLES_FILE = f"{SAMPLES}.parquet"


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
    counts: Counts | None

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
    chosen, trials = _readable(chosen)
    writing = output.parent / f"{PARTIAL_PREFIX}{output.name}.{os.getpid()}"
    with disk_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        try:
            (writing / CELLS).mkdir(parents=True)
            for taken in trials:
                _write_trial(taken, writing / CELLS / taken.trial_id, samples)
            rows = [replace(taken.row, trial=number) for number, taken in enumerate(trials)]
            counts = {number: taken.counts for number, taken in enumerate(trials) if taken.counts is not None}
            chosen = without(chosen, _about_loops(rows))
            write_run_tables(writing, RunTables(rows, counts))
            manifest = _manifest(chosen, rows, now, has_samples=samples == HERE)
            write_synced(writing / MANIFEST, manifest.model_dump_json(indent=2).encode())
            writing.rename(output)
        except BaseException:
            remove(writing)
            raise
    return Merged(output, manifest, chosen.remarks)


def _readable(chosen: Chosen) -> tuple[Chosen, list[_Taken]]:
    """Read the tables of all parts, leave out what is damaged, and number repetitions on."""
    remarks: list[str] = []
    by_cell: dict[str, list[tuple[Part, TrialRow, Counts | None]]] = defaultdict(list)
    for part in chosen.parts:
        tables = tables_of(part.run)
        remarks += [f"{remark} (of {part.host})" for remark in tables.remarks]
        for row in tables.rows:
            by_cell[row.cell].append((part, row, tables.counts.get(row.trial)))
    taken = [one for name in sorted(by_cell) for one in _numbered(by_cell[name])]
    return without(chosen, remarks), taken


def _numbered(trials: Sequence[tuple[Part, TrialRow, Counts | None]]) -> list[_Taken]:
    """Number the repetitions of a cell: as they were where no two hosts have the same, else on from host to host."""
    ordered = sorted(
        trials, key=lambda one: (one[0].host, one[0].run.manifest.created_at, one[0].run.run_id, one[1].repetition)
    )
    numbers = [row.repetition for _, row, _ in ordered]
    if len(set(numbers)) < len(numbers):
        numbers = list(range(1, len(ordered) + 1))
    else:
        ordered.sort(key=lambda one: one[1].repetition)
        numbers.sort()
    return [
        _Taken(
            part,
            replace(row, host=part.host, repetition=number, folder=f"{CELLS}/{row.cell}.r{number}"),
            part.run.folder / row.folder,
            row.repetition,
            counts,
        )
        for (part, row, counts), number in zip(ordered, numbers, strict=True)
    ]


def _write_trial(taken: _Taken, folder: Path, samples: str) -> None:
    folder.mkdir()
    # As it was written, but for its place here: nothing that an older version wrote is made over.
    document: dict[str, Any] = json.loads((taken.source / TRIAL).read_bytes())
    origin = TrialOrigin(run_id=taken.part.run.run_id, repetition=taken.repetition)
    document |= {"repetition": taken.row.repetition, "host": taken.part.host, "origin": origin.model_dump()}
    (folder / TRIAL).write_text(json.dumps(document))
    names = [path.name for path in taken.source.iterdir()]
    stays = taken.counts is not None and samples != HERE and COUNTS in names
    for name in names:
        if name == TRIAL or name.startswith(PARTIAL_PREFIX) or (stays and name == _SAMPLES_FILE):
            continue
        _link(taken.source / name, folder / name)
    if not stays:
        return
    sha256 = read_description(taken.source / COUNTS)["sha256"].get(_SAMPLES_FILE)
    if sha256 is None:
        # It is in parts: those were linked.
        return
    path = taken.source / _SAMPLES_FILE
    urls = [path.absolute().as_uri()]
    if samples != STAY and path.is_file():
        urls.insert(0, put(path, sha256, samples))
    known = Elsewhere(host=taken.part.host, files={_SAMPLES_FILE: ElsewhereFile(sha256=sha256, urls=urls)})
    (folder / ELSEWHERE).write_text(known.model_dump_json())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


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
            folder=str(part.run.folder),
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
