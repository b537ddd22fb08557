"""What a trial measured until it was cut short stays, says so, and makes way for the whole trial."""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import Command, make_command
from scripted_agent import PART_ROWS, Behaviour, ScriptedPlatform
from test_runner import CAMPAIGN, Bench, only

from stealtime.campaigns.events import CellCutShort, CellDropped
from stealtime.campaigns.runner import Tally
from stealtime.campaigns.validity import too_short
from stealtime.store.run import Run, Trial, find_run
from stealtime.store.writer import RunWriter
from stealtime.vocabulary.errors import ExitCode
from stealtime.wire.message import TrialRequest

ONCE = CAMPAIGN.replace("repetitions = 2", "repetitions = 1")
CUT = "native.alone.switch-10.r1"


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Interrupted:
    """A run that is interrupted while ``switch`` of ten threads is measured.

    Args:
        folder: Of the run.
        what: The agent does with that trial, until it is cancelled.
        after: How much of the trial is measured by then.
    """

    def __init__(self, folder: Path, what: str = "until cancelled", after: float = 0.4) -> None:
        self.is_there = asyncio.Event()
        self.what = what
        self.platform = ScriptedPlatform("native", self._behave, cancelled_after=after)
        self.bench = Bench(folder, [self.platform], ONCE)

    def _behave(self, request: TrialRequest) -> str:
        what = only(10, self.what)(request)
        if what == self.what:
            self.is_there.set()
        return what

    async def run(self, writer: RunWriter, interruptions: int = 1) -> Run:
        task = asyncio.create_task(self.bench.run(writer))
        await self.is_there.wait()
        for _ in range(interruptions):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        writer.close()
        return Run.open(writer.folder)

    async def resume(self, run: Run, behaviour: Behaviour) -> Tally:
        self.platform.behaviour = behaviour
        done = {trial.record.trial_id for trial in run.whole}
        writer = RunWriter.reopen(run)
        tally = await self.bench.run(writer, self.bench.plan.without(done))
        writer.close()
        return tally


def cut_cell(run: Run) -> Trial:
    return next(trial for trial in Run.open(run.folder).trials if trial.record.trial_id == CUT)


async def test_an_interrupted_trial_stays_and_says_how_long_it_watched(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path)
    run = await interrupted.run(interrupted.bench.create())
    record = cut_cell(run).record
    assert record.state == "cut_short"
    assert record.cut_short is not None
    assert (record.cut_short.watched_s, record.cut_short.wanted_s) == (0.0004, 0.001)
    assert record.cut_short.why == "the run was interrupted"
    assert too_short(record) == "watched too short: 0.0004 s of 0.001 s, because the run was interrupted"
    long = record.cut_short.model_copy(update={"watched_s": 1092.4, "wanted_s": 1800.0})
    told = too_short(record.model_copy(update={"cut_short": long}))
    assert told == "watched too short: 18 min 12 s of 30 min 00 s, because the run was interrupted"
    nearly = record.cut_short.model_copy(update={"watched_s": 0.299961, "wanted_s": 0.3})
    told = too_short(record.model_copy(update={"cut_short": nearly}))
    assert told == "watched too short: 0.29996 s of 0.3 s, because the run was interrupted"
    assert record.outcome is not None
    assert [(one.code, one.level) for one in record.outcome.findings] == [("cut_short", "invalidates")]
    run.check_tables()
    assert CUT in {trial.record.trial_id for trial in run.measured}
    assert CUT not in {trial.record.trial_id for trial in run.whole}
    assert [event.cell.trial_id for event in interrupted.bench.recorder.of(CellCutShort)] == [CUT]


async def test_a_trial_that_had_its_time_when_it_was_interrupted_is_whole(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path, after=1.0)
    run = await interrupted.run(interrupted.bench.create())
    record = cut_cell(run).record
    assert (record.state, record.cut_short) == ("measured", None)
    assert record.outcome is not None
    assert record.outcome.findings == []


async def test_what_was_cut_short_is_measured_anew_and_makes_way_for_the_whole(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path)
    run = await interrupted.run(interrupted.bench.create())
    tally = await interrupted.resume(run, lambda _: "measure")
    assert tally.measured[0] == CUT
    assert cut_cell(run).record.state == "measured"
    assert not list(run.folder.rglob(".partial-*"))


async def test_what_was_cut_short_stays_until_there_is_more(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path)
    run = await interrupted.run(interrupted.bench.create())
    tally = await interrupted.resume(run, only(10, "refuse"))
    record = cut_cell(run).record
    assert tally.failed == [CUT]
    assert record.cut_short is not None
    assert record.failure is not None
    assert "9 is no priority here" in record.failure.message
    for after, watched_s in ((0.2, 0.0004), (0.7, 0.0007)):
        again = Interrupted(tmp_path, after=after)
        again.bench = Bench(tmp_path, [again.platform], ONCE)
        await again.run(RunWriter.reopen(Run.open(run.folder)))
        kept = cut_cell(run).record.cut_short
        assert kept is not None
        assert kept.watched_s == watched_s


async def test_a_second_interruption_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 3600.0)
    interrupted = Interrupted(tmp_path, "hang")
    run = await interrupted.run(interrupted.bench.create(), interruptions=2)
    assert CUT not in {trial.record.trial_id for trial in run.trials}
    assert [event.cell.trial_id for event in interrupted.bench.recorder.of(CellDropped)] == [CUT]


async def test_a_run_with_a_cell_cut_short_is_shown_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = Interrupted(tmp_path / "stealtime" / "runs")
    await interrupted.run(interrupted.bench.create())
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    stealtime: Command = make_command(monkeypatch, capsys)
    shown = stealtime("show", "last", "--json")
    assert shown.code == ExitCode.NOT_JUDGED
    cells = {(cell["probe"], cell["parameters"].get("threads")): cell for cell in json.loads(shown.out)["cells"]}
    assert not cells["switch", 10]["valid"]
    assert cells["switch", 10]["stats"]["count"] == 1000
    assert cells["switch", 10]["reasons"] == ["it watched 0.0 s of 0.0 s: the run was interrupted"]
    assert cells["tick", None]["valid"]


PARTS = """
name = "parts"
checkpoint = "100ms"
[[probes]]
probe = "tick"
duration = "1s"
"""
IN_PARTS = "native.alone.tick-68us.r1"


async def test_a_trial_in_parts_is_joined_and_looks_as_any_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native", lambda _: "part, measure")], PARTS)
    writer = bench.create()
    tally = await bench.run(writer)
    writer.close()
    assert (tally.measured, tally.cut_short) == ([IN_PARTS], [])
    [trial] = Run.open(writer.folder).trials
    assert sorted(path.name for path in trial.folder.iterdir()) == [
        "counts.parquet", "envelope.parquet", "events.parquet", "longest.parquet", "samples.parquet", "serial.log",
        "trial.json",
    ]  # fmt: skip
    assert pq.read_table(trial.table("samples"))["duration"].to_pylist()[8:] == list(range(208, 1200))
    events = pq.read_table(trial.table("events")).to_pylist()
    assert [(one["kind"], one["index"]) for one in events] == [("saturated", 7), ("pause", PART_ROWS)]


async def test_a_machine_that_dies_leaves_the_parts_that_were_stored_and_why(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native", lambda _: "part, die")], PARTS)
    writer = bench.create()
    tally = await bench.run(writer)
    writer.close()
    assert (tally.cut_short, tally.failed) == ([IN_PARTS], [IN_PARTS])
    [trial] = Run.open(writer.folder).trials
    record = trial.record
    assert record.cut_short is not None
    assert (record.state, record.cut_short.watched_s, record.cut_short.wanted_s) == ("cut_short", 0.4, 1.0)
    assert "closed its channel" in record.cut_short.why
    assert record.failure is not None
    assert "closed its channel" in record.failure.message
    trial.check_tables()
    assert pq.read_table(trial.table("samples")).num_rows == PART_ROWS
    assert "last words" in (trial.folder / "serial.log").read_text()


def wait_for_checkpoint(run: Path, parts: int) -> None:
    def count() -> int:
        found = [json.loads(path.read_text()) for path in run.glob("cells/.partial-*/checkpoint.json")]
        return found[0]["parts"] if found else 0

    while count() < parts:
        time.sleep(0.005)


async def killed(folder: Path, what: str = "part, hang", parts: int = 1) -> Run:
    """Give a run whose control plane was killed when so many parts had been stored."""
    bench = Bench(folder, [ScriptedPlatform("native", lambda _: what)], PARTS)
    writer = bench.create()
    task = asyncio.create_task(bench.run(writer))
    await asyncio.to_thread(wait_for_checkpoint, writer.folder, parts)
    left = folder / "left"
    shutil.copytree(writer.folder, left)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    writer.close()
    return Run.open(left)


async def test_what_a_killed_process_left_in_parts_is_found_by_the_next_that_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path)
    assert [trial.parts for trial in run.trials] == [1], "not joined yet"
    stealtime: Command = make_command(monkeypatch, capsys)
    shown = stealtime("show", str(run.folder), "--json")
    [cell] = json.loads(shown.out)["cells"]
    assert (shown.code, cell["valid"], cell["stats"]["count"]) == (ExitCode.NOT_JUDGED, False, PART_ROWS)
    assert cell["reasons"] == ["it watched 0.4 s of 1.0 s: what measured it ended without a word"]
    assert not list(run.folder.glob("cells/.partial-*"))


async def test_a_torn_part_is_no_part_and_a_checkpoint_needs_all_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    run = await killed(tmp_path)
    [partial] = run.folder.glob("cells/.partial-*")
    # The second part was being written.
    (partial / "samples.part-2.parquet").write_bytes(b"PAR1 and a part")
    (partial / ".partial-checkpoint.json").write_text("{")
    found = find_run(str(run.folder))
    assert pq.read_table(found.trials[0].table("samples")).num_rows == PART_ROWS


async def test_an_interrupted_trial_that_says_nothing_leaves_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    await killed(tmp_path)
    [trial] = Run.open(tmp_path / "20261121T000000Z-scripted-0001").trials
    assert trial.record.cut_short is not None
    assert trial.record.cut_short.why == "the run was interrupted"
