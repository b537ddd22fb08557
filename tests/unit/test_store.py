"""A run on disk: whole or not there, found by name, and what is damaged is named."""

import csv
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scripted_agent import PART_ROWS, ScriptedPlatform
from test_runner import Bench

from stealtime.store.durations import DURATIONS, Durations
from stealtime.store.export import write_samples_csv
from stealtime.store.lock import is_being_written
from stealtime.store.model import Cell
from stealtime.store.run import Run, Trial, find_run, runs_in
from stealtime.store.tables import read_description
from stealtime.store.writer import DiskError, RunWriter
from stealtime.vocabulary.errors import StealtimeError, UsageError


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
async def run(tmp_path: Path) -> Run:
    """A run with one trial of each probe."""
    text = 'name = "scripted"\n' + "".join(
        f'[[probes]]\nprobe = "{probe}"\nduration = "1ms"\n{more}'
        for probe, more in (("tick", ""), ("switch", "threads = [2]\n"), ("wakeup", ""))
    )
    bench = Bench(tmp_path / "runs", [ScriptedPlatform("native")], text)
    writer = bench.create()
    await bench.run(writer)
    writer.close()
    return Run.open(writer.folder)


def trial_of(run: Run, probe: str) -> Trial:
    return next(trial for trial in run.trials if trial.record.cell.probe == probe)


def test_the_name_of_a_cell_is_fit_for_a_file() -> None:
    cell = Cell(platform="ssh:me@host:22", scenario="alone", probe="wakeup", parameters={"interval_ns": 1_500_000})
    assert cell.trial_id(2) == "ssh-me@host-22.alone.wakeup-1500us.r2"


def test_a_parquet_file_can_be_read_alone(run: Run) -> None:
    description = read_description(trial_of(run, "wakeup").table("samples"))
    assert description["layout"] == {"name": "periodic", "interval": 2_000_000}
    assert description["units_per_s"] == 2e9
    table = pq.read_table(trial_of(run, "switch").table("samples"))
    assert table.schema.field("gap").type == pa.uint32()
    assert table.num_rows == 1000


@pytest.mark.parametrize(
    ("probe", "start_9_ns", "duration_7_ns"),
    [
        # Seven samples of 200..206 units, one of 5e9, one of 208; a unit is half a nanosecond.
        ("tick", (sum(range(200, 207)) + 5_000_000_000 + 208) / 2, 2.5e9),
        ("switch", (sum(range(200, 207)) + 5_000_000_000 + 208 + 10 * 50) / 2, 2.5e9),
        ("wakeup", 9e6, 2.5e9),
    ],
)
def test_exported_samples_have_their_true_times(
    run: Run, tmp_path: Path, probe: str, start_9_ns: float, duration_7_ns: float
) -> None:
    target = tmp_path / "samples.csv"
    assert write_samples_csv(trial_of(run, probe), target) == 1000
    with target.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    assert float(rows[9]["start_ns"]) == start_9_ns
    assert float(rows[7]["duration_ns"]) == duration_7_ns


@pytest.mark.parametrize(
    ("probe", "start_400_ns", "start_399_ns"),
    [
        ("tick", (sum(range(200, 600)) - 207 + 5_000_000_000 + 5_000) / 2, (sum(range(200, 599)) - 207 + 5e9) / 2),
        ("wakeup", 400e6 + 2_500, 399e6),
    ],
)
async def test_exported_samples_after_a_pause_are_later_by_it(
    tmp_path: Path, probe: str, start_400_ns: float, start_399_ns: float
) -> None:
    text = f'name = "parts"\ncheckpoint = "100ms"\n[[probes]]\nprobe = "{probe}"\nduration = "1s"\n'
    bench = Bench(tmp_path / "runs", [ScriptedPlatform("native", lambda _: "part, measure")], text)
    writer = bench.create()
    await bench.run(writer)
    writer.close()
    [trial] = Run.open(writer.folder).trials
    target = tmp_path / "samples.csv"
    assert write_samples_csv(trial, target) == 1000
    with target.open() as file:
        rows = list(csv.DictReader(file))
    assert [float(rows[place]["start_ns"]) for place in (PART_ROWS - 1, PART_ROWS)] == [start_399_ns, start_400_ns]


def test_a_run_is_found_by_last_name_part_and_path(run: Run) -> None:
    runs_folder = run.folder.parent
    for name in ("last", run.run_id, "20261121T", "scripted", str(run.folder)):
        assert find_run(name, runs_folder).run_id == run.run_id
    with pytest.raises(UsageError, match="'nothing'"):
        find_run("nothing", runs_folder)
    with pytest.raises(UsageError, match="holds none"):
        find_run("last", runs_folder / "empty")


def test_a_name_that_means_two_runs_is_refused(run: Run) -> None:
    twin = run.folder.with_name("20261121T000000Z-scripted-0002")
    twin.mkdir()
    (twin / "manifest.json").write_bytes((run.folder / "manifest.json").read_bytes())
    with pytest.raises(UsageError, match="2 runs"):
        find_run("scripted", run.folder.parent)
    assert len(runs_in(run.folder.parent)) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 1}', "\x00"])
def test_a_damaged_manifest_is_named(run: Run, content: str) -> None:
    (run.folder / "manifest.json").write_text(content)
    with pytest.raises(StealtimeError, match=r"manifest\.json is damaged"):
        Run.open(run.folder)


def test_a_manifest_of_a_newer_version_is_refused(run: Run) -> None:
    (run.folder / "manifest.json").write_text('{"schema_version": 7}')
    with pytest.raises(StealtimeError, match="schema version 7"):
        Run.open(run.folder)


def test_a_damaged_trial_is_named_with_how_to_measure_it_again(run: Run) -> None:
    path = trial_of(run, "tick").folder / "trial.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(StealtimeError, match=r"trial\.json is damaged") as caught:
        _ = Run.open(run.folder).trials
    assert "--resume" in (caught.value.hint or "")


@pytest.mark.parametrize("keep", [0, 3, 200, -1])
def test_a_parquet_file_cut_short_is_named(run: Run, keep: int, tmp_path: Path) -> None:
    path = trial_of(run, "tick").table("samples")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StealtimeError, match=r"samples\.parquet is damaged: it is truncated at \d+ bytes"):
        run.check_tables()
    with pytest.raises(StealtimeError, match="truncated"):
        write_samples_csv(trial_of(run, "tick"), tmp_path / "x.csv")


def test_two_processes_do_not_write_one_run(run: Run) -> None:
    writer = RunWriter.reopen(run)
    assert is_being_written(run.folder)
    with pytest.raises(UsageError, match="another stealtime"):
        RunWriter.reopen(run)
    writer.close()
    assert not is_being_written(run.folder)


def test_what_a_dead_process_left_half_written_is_removed(run: Run) -> None:
    (run.folder / ".partial-uml.alone.r1").mkdir()
    (run.folder / "cells" / ".partial-x").mkdir()
    (run.folder / "cells" / ".partial-x" / "samples.parquet").write_bytes(b"PAR1")
    assert len(run.trials) == 3
    RunWriter.reopen(run).close()
    assert not list(run.folder.rglob(".partial-*"))


def test_a_folder_that_cannot_be_written_is_one_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="Not a directory") as caught:
        RunWriter.create(tmp_path / "file", run.manifest)
    assert str(tmp_path / "file") in str(caught.value)
    assert "choose another folder" in (caught.value.hint or "")


def test_a_damaged_stream_leaves_no_cell(run: Run, tmp_path: Path) -> None:
    from stealtime.store.writer import Tables

    writer = RunWriter.reopen(run)
    record = trial_of(run, "tick").record.model_copy(update={"repetition": 9})
    (tmp_path / "samples.arrows").write_bytes(b"no arrow at all")
    with pytest.raises(StealtimeError, match=r"samples\.arrows is damaged"):
        writer.write_trial(record, Tables(DURATIONS, {"samples": tmp_path / "samples.arrows"}), {})
    writer.close()
    assert not list(run.folder.rglob("*r9*"))


def test_a_result_of_another_kind_is_refused_by_name(run: Run) -> None:
    path = trial_of(run, "tick").folder / "trial.json"
    document = json.loads(path.read_text())
    assert (document["result"]["kind"], document["result"]["tables"]) == ("durations", ["samples", "events"])
    path.write_text(json.dumps(document | {"result": {"kind": "songs", "tables": [], "verses": 3}}))
    trial = trial_of(Run.open(run.folder), "tick")
    trial.check_tables()
    with pytest.raises(StealtimeError, match=r"trial\.json is damaged: result\.kind"):
        trial.result(Durations)
