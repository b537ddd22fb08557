"""A plan is carried out whatever its machines do, and every whole cell stays."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
import scripted_agent
from scripted_agent import ScriptedPlatform

from stealtime.campaigns.events import Booting, CellFailed, CellProgressed, Event, MachineLost
from stealtime.campaigns.executor import LocalExecutor
from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import Plan, plan
from stealtime.campaigns.runner import Runner, Tally
from stealtime.lab.host import LocalHost
from stealtime.lab.platforms.kvm_counters import CountersGained, CountersLook
from stealtime.lab.platforms.model import Platform
from stealtime.store.model import Manifest, PlatformRecord, TrialRecord
from stealtime.store.run import Run
from stealtime.store.writer import DiskError, RunWriter
from stealtime.vocabulary.readings import Absent, Value
from stealtime.wire.message import TrialRequest

CAMPAIGN = """
name = "scripted"
repetitions = 2
[[probes]]
probe = "tick"
duration = "1ms"
[[probes]]
probe = "switch"
threads = [2, 10]
duration = "1ms"
[[probes]]
probe = "wakeup"
duration = "1ms"
"""


_Kind = TypeVar("_Kind")


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is what a real run wants, and no test sees the difference."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@dataclass
class Recorder:
    """Keeps all events."""

    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass(frozen=True)
class ScriptedHost(LocalHost):
    """A host on which scripted platforms boot."""

    there: tuple[ScriptedPlatform, ...] = ()

    def platforms(self) -> dict[str, Platform]:
        return {one.name: one for one in self.there}

    def platform(self, name: str) -> Platform:
        return self.platforms()[name]


@dataclass
class Bench:
    """A run of the scripted campaign on scripted platforms."""

    folder: Path
    platforms: list[ScriptedPlatform]
    text: str = CAMPAIGN
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def campaign(self) -> Campaign:
        return read_campaign(self.text, "test")

    @property
    def plan(self) -> Plan:
        records = [PlatformRecord(name=one.name, usable=True, reason="") for one in self.platforms]
        return plan(self.campaign, records, HostCpus((0, 1)))

    def create(self) -> RunWriter:
        return RunWriter.create(self.folder, manifest(self.campaign))

    async def run(self, writer: RunWriter, planned: Plan | None = None) -> Tally:
        executor = self.executor("local", self.platforms, planned)
        return await Runner(planned or self.plan, {"local": executor}, writer, self.recorder).run()

    def executor(self, name: str, there: list[ScriptedPlatform], planned: Plan | None = None) -> LocalExecutor:
        host = ScriptedHost(name, tuple(there))
        return LocalExecutor(planned or self.plan, host.platforms(), self.recorder, "r", host)


def manifest(campaign: Campaign) -> Manifest:
    return Manifest(
        run_id="20261121T000000Z-scripted-0001",
        created_at=datetime.now(UTC),
        command_line=["stealtime", "run"],
        stealtime_version="0",
        git_describe=Absent(absent="a test"),
        campaign=campaign.document(),
        hosts={"local": {}},
        seed=1,
    )


def only(number_of_threads: int, what: str) -> Callable[[TrialRequest], str]:
    """Do ``what`` for the switch of so many threads, and measure everything else."""

    def behaviour(request: TrialRequest) -> str:
        return what if request.probe.name == "switch" and request.probe.threads == number_of_threads else "measure"

    return behaviour


def under_kvm(writer: RunWriter) -> list[TrialRecord]:
    """Give the trials of the guest, as they were carried out."""
    records = [trial.record for trial in Run.open(writer.folder).trials]
    return sorted((one for one in records if one.cell.platform != "native"), key=lambda one: one.started_at)


async def test_every_cell_of_every_repetition_is_measured_and_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native"), ScriptedPlatform("uml")])
    writer = bench.create()
    tally = await bench.run(writer)
    writer.close()
    run = Run.open(writer.folder)
    run.check_tables()
    assert len(tally.measured) == 2 * 2 * 4
    assert {trial.record.trial_id for trial in run.measured} == {cell.trial_id for cell in bench.plan.cells}
    assert run.manifest.state == "finished"
    assert run.manifest.finished_at is not None
    assert not list(writer.folder.rglob(".partial-*"))


async def test_a_run_holds_several_hosts_and_each_trial_names_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native"), ScriptedPlatform("uml")])
    boots = [replace(boot, host="far" if boot.platform == "uml" else "near") for boot in bench.plan.boots]
    writer = bench.create()
    executors = {name: bench.executor(name, bench.platforms) for name in ("near", "far")}
    tally = await Runner(replace(bench.plan, boots=tuple(boots)), executors, writer, bench.recorder).run()
    assert not tally.failed
    hosts = {(trial.record.cell.platform, trial.record.host) for trial in Run.open(writer.folder).trials}
    assert hosts == {("native", "near"), ("uml", "far")}


async def test_what_does_not_boot_on_one_host_is_tried_on_another(tmp_path: Path) -> None:
    old, new = ScriptedPlatform("uml", protocol=99), ScriptedPlatform("uml")
    native = ScriptedPlatform("native")
    bench = Bench(tmp_path, [native, new])
    boots = [replace(boot, host="far" if boot.repetition == 2 else "near") for boot in bench.plan.boots]
    executors = {"near": bench.executor("near", [native, old]), "far": bench.executor("far", [native, new])}
    tally = await Runner(replace(bench.plan, boots=tuple(boots)), executors, bench.create(), bench.recorder).run()
    assert {identity[-3:] for identity in tally.failed} == {".r1"}
    assert len(tally.measured) == 3 * 4


async def test_the_loop_is_calibrated_once_and_the_same_everywhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native"), ScriptedPlatform("uml")])
    writer = bench.create()
    await bench.run(writer)
    iterations = {
        trial.probe.iterations for one in bench.platforms for trial in one.trials if trial.probe.name == "tick"
    }
    assert iterations == {68_000}
    assert [(loop.loop_ns, loop.iterations) for loop in writer.manifest.loops] == [(68_000, 68_000)]


async def test_a_trial_says_where_it_ran_and_how_the_clocks_stood(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native")])
    writer = bench.create()
    await bench.run(writer)
    record = Run.open(writer.folder).trials[0].record
    assert record.machine is not None
    assert record.machine.threads[0].cpus == (1,)
    assert record.alignment is not None
    assert record.alignment.before.error_ns >= 0
    assert "last words" in (writer.folder / "cells" / record.trial_id / "serial.log").read_text()


async def test_what_the_hypervisor_counts_is_read_before_each_trial_and_when_it_has_measured(tmp_path: Path) -> None:
    def counted(reading: int) -> CountersLook:
        return CountersLook(reading * 1_000, reading * 1_000 + 7, {0: {"exits": 10**reading}})

    bench = Bench(tmp_path, [ScriptedPlatform(), ScriptedPlatform("qemu-kvm-paravirt", hypervisor_counters=counted)])
    writer = bench.create()
    await bench.run(writer)
    first, second = (record.hypervisor_counters for record in under_kvm(writer)[:2])
    assert isinstance(first, CountersGained)
    assert first.total == {"exits": Value(value=90)}
    assert first.vcpus == (first.total,)
    assert (first.begin_monotonic_raw_ns, first.end_monotonic_raw_ns, first.reading_ns) == (1_007, 2_000, 7)
    assert isinstance(second, CountersGained)
    assert second.total == {"exits": Value(value=9_000)}, "two readings a trial, and no more"


@pytest.mark.parametrize("readable", [0, 1], ids=["never", "before only"])
async def test_a_hypervisor_that_cannot_be_asked_fails_no_trial(tmp_path: Path, readable: int) -> None:
    unknown = Absent(absent="QEMU of test failed at query-stats")

    def counted(reading: int) -> CountersLook | Absent:
        return CountersLook(1, 2, {0: {"exits": 5}}) if reading <= readable else unknown

    bench = Bench(tmp_path, [ScriptedPlatform(), ScriptedPlatform("qemu-kvm-paravirt", hypervisor_counters=counted)])
    writer = bench.create()
    await bench.run(writer)
    records = under_kvm(writer)
    assert {record.state for record in records} == {"measured"}
    assert records[0].hypervisor_counters == unknown


async def test_a_refused_cell_fails_alone_and_the_machine_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native", only(10, "refuse"))])
    tally = await bench.run(writer := bench.create())
    assert tally.failed == ["native.alone.switch-10.r1", "native.alone.switch-10.r2"]
    assert bench.platforms[0].boots == 3, "one for the calibration, one a repetition"
    failure = bench.recorder.of(CellFailed)[0].failure
    assert "9 is no priority here" in failure.message
    assert failure.hint == "choose another"
    assert failure.log_tail[-1] == "last words"
    failed = [trial.record for trial in Run.open(writer.folder).trials if trial.record.state == "failed"]
    assert failed[0].failure == failure


async def test_a_dead_machine_is_booted_once_more_and_its_killer_comes_last(tmp_path: Path) -> None:
    platform = ScriptedPlatform("native", only(2, "die"))
    bench = Bench(tmp_path, [platform], CAMPAIGN.replace("repetitions = 2", "repetitions = 1"))
    tally = await bench.run(bench.create())
    assert tally.failed == ["native.alone.switch-2.r1"]
    assert len(tally.measured) == 3, "the others were measured on the second machine"
    assert platform.boots == 1 + 2
    assert [one.again for one in bench.recorder.of(Booting)] == [False, True]
    (lost,) = bench.recorder.of(MachineLost)
    assert lost.reason.count(scripted_agent.AGENT_ENDED) == 1, "how it ended is told, and once"


async def test_a_machine_that_dies_once_loses_no_cell(tmp_path: Path) -> None:
    died: list[int] = []

    def once(request: TrialRequest) -> str:
        if request.probe.name == "switch" and not died:
            died.append(1)
            return "die"
        return "measure"

    bench = Bench(tmp_path, [ScriptedPlatform("native", once)])
    tally = await bench.run(bench.create())
    assert tally.failed == []
    assert len(tally.measured) == 8


async def test_a_silent_machine_is_given_up_after_its_timeout(tmp_path: Path) -> None:
    text = 'cell_timeout = "50ms"\n' + CAMPAIGN.replace("repetitions = 2", "repetitions = 1")
    bench = Bench(tmp_path, [ScriptedPlatform("native", only(10, "hang"))], text)
    tally = await bench.run(bench.create())
    assert tally.failed == ["native.alone.switch-10.r1"]
    assert len(tally.measured) == 3


async def test_an_agent_of_another_version_fails_its_cells_and_is_not_booted_again(tmp_path: Path) -> None:
    old = ScriptedPlatform("uml", protocol=99)
    bench = Bench(tmp_path, [ScriptedPlatform("native"), old])
    tally = await bench.run(bench.create())
    assert len(tally.failed) == 8
    assert len(tally.measured) == 8
    assert old.boots == 1
    messages = [event.failure.message for event in bench.recorder.of(CellFailed)]
    assert "9.9.9" in messages[0]
    assert "99" in messages[0]
    assert messages[-1].startswith("not tried again")


async def test_an_invalid_cell_is_kept_and_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native", only(2, "invalid"))])
    tally = await bench.run(bench.create())
    assert tally.invalid == ["native.alone.switch-2.r1", "native.alone.switch-2.r2"]
    assert len(tally.measured) == 8


async def test_a_machine_whose_second_is_wrong_is_invalid_and_its_neighbours_are_not(tmp_path: Path) -> None:
    # Ten seconds in one are more than any round trip of the exchanges can explain.
    bench = Bench(tmp_path, [ScriptedPlatform("native"), ScriptedPlatform("uml", speed=10.0)])
    writer = bench.create()
    tally = await bench.run(writer)
    writer.close()
    assert len(tally.invalid) == 8
    for trial in Run.open(writer.folder).trials:
        assert trial.record.clocks is not None
        if trial.record.cell.platform == "uml":
            assert trial.record.clocks.host.state == "disagreed"
            assert trial.record.outcome is not None
            (finding,) = trial.record.outcome.findings
            assert finding.code == "host_clock_disagrees"
            assert "the machine's clock rate differs from the host's" in finding.text
        else:
            assert trial.record.clocks.host.state == "not independent"


async def test_an_interruption_keeps_what_is_whole_and_a_resumed_run_does_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 0.05)
    third_cell_hangs = asyncio.Event()

    def behaviour(request: TrialRequest) -> str:
        what = only(10, "hang")(request)
        if what == "hang":
            third_cell_hangs.set()
        return what

    platform = ScriptedPlatform("native", behaviour)
    bench = Bench(tmp_path, [platform])
    writer = bench.create()
    task = asyncio.create_task(bench.run(writer))
    await third_cell_hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    writer.close()
    run = Run.open(writer.folder)
    assert run.manifest.state == "interrupted"
    assert [trial.record.trial_id for trial in run.trials] == ["native.alone.tick-68us.r1", "native.alone.switch-2.r1"]
    assert not list(run.folder.rglob(".partial-*"))

    platform.behaviour, platform.trials = only(0, "measure"), []
    again = RunWriter.reopen(run)
    tally = await bench.run(again, bench.plan.without({trial.record.trial_id for trial in run.measured}))
    assert len(tally.measured) == 6
    assert len(platform.trials) == 6, "nothing is measured twice"
    assert Run.open(writer.folder).manifest.state == "finished"


async def test_a_resumed_run_replaces_a_failed_cell(tmp_path: Path) -> None:
    platform = ScriptedPlatform("native", only(10, "refuse"))
    bench = Bench(tmp_path, [platform])
    writer = bench.create()
    await bench.run(writer)
    writer.close()
    platform.behaviour = only(0, "measure")
    run = Run.open(writer.folder)
    again = RunWriter.reopen(run)
    tally = await bench.run(again, bench.plan.without({trial.record.trial_id for trial in run.measured}))
    assert tally.measured == ["native.alone.switch-10.r1", "native.alone.switch-10.r2"]
    assert len(Run.open(writer.folder).measured) == 8


async def test_progress_reaches_the_observer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native")])
    await bench.run(bench.create())
    assert all(event.max_ns == 2000.0 for event in bench.recorder.of(CellProgressed))
    assert len(bench.recorder.of(CellProgressed)) == 8


async def test_a_full_disk_ends_the_run_in_one_sentence_and_keeps_what_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native")])
    writer = bench.create()
    limit_writes_after(2, monkeypatch)
    with pytest.raises(DiskError, match="No space left on device") as caught:
        await bench.run(writer)
    assert "--resume" in (caught.value.hint or "")
    writer.close()
    run = Run.open(writer.folder)
    run.check_tables()
    assert len(run.trials) == 2
    assert not list(run.folder.rglob(".partial-*"))


async def test_a_disk_that_is_full_while_samples_come_ends_the_run_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    bench = Bench(tmp_path, [ScriptedPlatform("native")])
    writer = bench.create()
    monkeypatch.setattr("stealtime.wire.spool.TableSpool.discard", refuse)
    monkeypatch.setattr("stealtime.wire.spool.TableSpool.write", refuse)
    with pytest.raises(DiskError, match="No space left on device"):
        await bench.run(writer)
    assert Run.open(writer.folder).manifest.state == "interrupted"


def limit_writes_after(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full at the Parquet file of the cell after ``cells``."""
    from stealtime.store import tables

    real, count = tables.write_parquet, [0]

    def write(stream: Path, target: Path, description: object) -> int:
        if target.name == "samples.parquet":
            count[0] += 1
            if count[0] > cells:
                target.write_bytes(b"PAR1 and a part")
                raise OSError(28, "No space left on device")
        return real(stream, target, description)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "write_parquet", write)
