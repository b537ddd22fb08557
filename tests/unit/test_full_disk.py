"""A disk that fills while a long trial is measured: what was stored before counts, is shown, and is joined later."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import Command
from junitparser import JUnitXml
from scripted_agent import PART_ROWS, ScriptedPlatform
from test_cut_short import IN_PARTS, PARTS, killed
from test_preflight import SHORT

from stealtime.store import adoption, tables
from stealtime.store.export import read_samples
from stealtime.store.lock import take_lock
from stealtime.store.run import Run, Trial, find_run
from stealtime.store.writer import DiskError, RunWriter, disk_errors
from stealtime.studies.latency.analysis.series import load_series
from stealtime.vocabulary.errors import ExitCode

UNJOINED = "it lies on the disk in 1 part, which could not be joined"


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have no room for a second part, nor for a table that is joined of parts; files of a few KiB find some."""
    write = tables.write_parquet

    def write_no_second_part(stream: Path, target: Path, *rest: Any) -> int:
        rows = write(stream, target, *rest)
        if "part-2" in target.name or "part-last" in target.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rows

    def join(_parts: object, target: Path) -> None:
        target.write_bytes(b"PAR1, and no more")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(tables, "write_parquet", write_no_second_part)
        full.setattr(tables, "join_parquet", join)
        yield full


def campaign(folder: Path) -> str:
    path = folder / "parts.toml"
    path.write_text(PARTS)
    return str(path)


@pytest.mark.parametrize("behaviour", ["part, part, hang", "part, measure"], ids=["in the middle", "at the end"])
def test_the_parts_that_are_there_count_and_are_shown(
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    full_disk: pytest.MonkeyPatch,
    behaviour: str,
) -> None:
    assert stealtime(*SHORT).code == 0, "an earlier run, which is no more the last"
    platforms[:] = [ScriptedPlatform("native", lambda _: behaviour)]
    junit = tmp_path / "cells.xml"
    ended = stealtime("run", campaign(tmp_path), "--json", "--junit", str(junit), "--max-overhead", "1h")
    assert ended.code == ExitCode.FAILED, ended.err
    document = json.loads(ended.out)
    [cell] = document["cells"]
    assert (cell["valid"], cell["stats"]["count"]) == (False, PART_ROWS)
    assert "No space left on device" in cell["reasons"][0]
    assert cell["limits"] == [f"{UNJOINED}: No space left on device"]
    assert [one["verdict"] for one in document["gate"]["cells"]] == ["not judged"]
    assert JUnitXml.fromfile(str(junit)).errors == 1
    assert "No space left on device" in ended.err.split("error: ")[1]
    assert f"go on with `stealtime run --resume {document['run_id']}`" in ended.err
    shown = stealtime("show", "last")
    assert shown.code == ExitCode.NOT_JUDGED
    assert document["run_id"] in shown.out
    assert UNJOINED in " ".join(shown.out.split())
    [listed] = [one for one in json.loads(stealtime("ls", "--json").out)["runs"] if one["run"] == document["run_id"]]
    assert (listed["state"], listed["cells_measured"], listed["cells_invalid"]) == ("interrupted", 1, 1)
    resumed = stealtime("run", "--resume", "last")
    assert resumed.code == ExitCode.FAILED
    assert "No space left on device" in resumed.err
    run = tmp_path / "data" / "stealtime" / "runs" / document["run_id"]
    left = sorted(path.name for path in run.glob(f"cells/.partial-{IN_PARTS}/*"))
    assert left == ["checkpoint.json", "events.part-1.parquet", "samples.part-1.parquet"], "nothing torn takes room"
    full_disk.undo()
    shown = stealtime("show", "last", "--json")
    [cell] = json.loads(shown.out)["cells"]
    assert cell["limits"] == []
    assert "No space left on device" in cell["reasons"][0], "what ended it was written down"
    assert pq.read_table(Run.open(run).trials[0].table("samples")).num_rows == PART_ROWS
    assert not list(run.glob("cells/.partial-*"))


async def test_who_may_not_write_the_run_sees_the_parts_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path)
    there = sorted(run.folder.rglob("*"))

    def not_for_us(_: Path) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(adoption, "take_lock", not_for_us)
    found = find_run(str(run.folder))
    [trial] = found.trials
    assert trial.record.cut_short is not None
    assert trial.record.cut_short.why == "what measured it ended without a word"
    assert trial.record.outcome is not None
    assert trial.record.outcome.findings[-1].text == f"{UNJOINED}: Permission denied"
    assert [pq.read_table(path).num_rows for path in trial.tables("samples")] == [PART_ROWS]
    assert sorted(run.folder.rglob("*")) == there


async def test_the_parts_of_a_living_run_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path)
    writer = RunWriter(run.folder, run.manifest, take_lock(run.folder))
    assert find_run(str(run.folder)).trials == []
    writer.close()
    assert len(find_run(str(run.folder)).trials) == 1


async def test_of_two_parts_of_a_cell_the_longer_one_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path)
    [partial] = run.folder.glob("cells/.partial-*")
    shutil.copytree(partial, tmp_path / "copy")
    find_run(str(run.folder))
    shutil.copytree(tmp_path / "copy", partial)
    [trial] = Run.open(run.folder).trials
    assert (trial.parts, trial.folder.name) == (None, IN_PARTS), "as long as what is there already"
    checkpoint = json.loads((partial / "checkpoint.json").read_text())
    checkpoint["record"]["outcome"]["counters"]["watched_ns"] += 1_000_000
    (partial / "checkpoint.json").write_text(json.dumps(checkpoint))
    [trial] = Run.open(run.folder).trials
    assert (trial.parts, trial.folder) == (1, partial)


def starts(trial: Trial) -> list[float]:
    return [start for batch in read_samples(trial) for start in batch.column("start_ns").to_pylist()]


async def test_samples_in_several_parts_are_read_as_one_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path, "part, part, hang", parts=2)
    [trial] = Run.open(run.folder).trials
    assert trial.parts == 2
    parted, parted_starts = load_series(trial), starts(trial)
    [joined] = find_run(str(run.folder)).trials
    assert joined.parts is None
    assert load_series(joined).summary() == parted.summary()
    assert len(parted) == 2 * PART_ROWS
    assert starts(joined) == parted_starts


def test_where_nothing_is_measured_a_full_disk_has_another_hint(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as told, disk_errors(tmp_path):
        raise OSError(errno.ENOSPC, "no space")
    assert told.value.hint is not None
    assert "--resume" not in told.value.hint
