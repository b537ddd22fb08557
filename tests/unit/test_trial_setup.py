"""Trials beside neighbours, and traced ones: what is recorded, and what a death or a refusal does to them."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import scripted_agent
from scripted_agent import ScriptedPlatform
from test_runner import Bench

from stealtime.campaigns.events import Booting, CellFailed
from stealtime.campaigns.trial_setup import neighbour_findings, neighbour_table
from stealtime.lab.platforms.host_views import between, look
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.scenarios.neighbour_load import Loaded
from stealtime.lab.scenarios.neighbour_work import Work
from stealtime.lab.scenarios.neighbours import NeighbourResult, neighbours
from stealtime.store.export_tables import write_tables_csv
from stealtime.store.neighbour_table import SAME_COUNTER, CounterMap
from stealtime.store.results import read_as
from stealtime.store.run import Run, Trial
from stealtime.store.tables import read_description
from stealtime.studies.stretch.probes import ContendCells
from stealtime.studies.stretch.results import Contention
from stealtime.vocabulary.alignment import Alignment
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.wire.load import CpuLoad, LoadRequest
from stealtime.wire.message import RunTrial

PROBES = """
[[probes]]
probe = "tick"
duration = "1ms"
[[probes]]
probe = "switch"
threads = [2]
duration = "1ms"
"""
BESIDE = 'name = "beside"\nscenarios = ["contention-cpu"]\n' + PROBES
ALIKE = """
name = "alike"
scenarios = ["together"]
priority = 0
[[probes]]
probe = "contend"
tasks = 2
iterations = 1
duration = "1m"
[[define]]
name = "together"
cpus = "all"
guests_only = true
[[define.neighbours]]
kind = "machine"
load = "same-work"
vcpus = "same"
count = 2
cpus = "all"
"""
TRACED = 'name = "traced"\ntracing = "both"\nrepetitions = 2\n' + PROBES


@pytest.fixture(autouse=True)
def no_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@dataclass
class LonelyPlatform(ScriptedPlatform):
    """A platform of which only the machine under test boots."""

    @asynccontextmanager
    async def _boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        if request.group.startswith("neighbour"):
            raise StealtimeError("no memory is left", hint="take fewer")
        async with super()._boot(request) as machine:
            yield machine


@dataclass
class UnlikePlatform(ScriptedPlatform):
    """A platform whose neighbours behave otherwise than the machine under test."""

    neighbours: ScriptedPlatform = field(default_factory=lambda: ScriptedPlatform("uml"))

    @asynccontextmanager
    async def _boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        boot = self.neighbours.boot if request.group.startswith("neighbour") else super()._boot
        async with boot(request) as machine:
            yield machine


def trial_of(run: Run, identity: str) -> Trial:
    return next(trial for trial in run.trials if trial.record.trial_id == identity)


async def test_each_trial_runs_beside_loaded_neighbours_and_keeps_what_they_achieved(tmp_path: Path) -> None:
    uml = ScriptedPlatform("uml")
    bench = Bench(tmp_path, [ScriptedPlatform("native"), uml], BESIDE)
    planned = bench.plan.without({cell.trial_id for cell in bench.plan.cells if cell.cell.platform == "native"})
    tally = await bench.run(writer := bench.create(), planned)
    assert tally.measured == ["uml.contention-cpu.tick-68us.r1", "uml.contention-cpu.switch-2.r1"]
    assert tally.invalid == []
    assert uml.loads == [1, 2], "the load of each trial is started anew"
    run = Run.open(writer.folder)
    run.check_tables()
    record = trial_of(run, tally.measured[0]).record
    (neighbour,) = record.neighbours
    assert (neighbour.name, neighbour.kind, neighbour.platform) == ("neighbour 1", "machine", "uml")
    assert neighbour.load is not None
    assert neighbour.load.kind.name == "cpu"
    assert neighbour.work is None
    assert neighbour.outcome is not None
    assert neighbour.outcome.rate_per_s == 2e7
    assert neighbour.share is not None
    assert neighbour.share.quota_percent == 50
    assert record.placement is not None
    assert record.placement.vcpu_cpus == [[1]]
    assert record.host_tracing is None


async def test_the_rows_of_a_neighbour_are_on_the_counter_of_the_host(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("native"), ScriptedPlatform("uml")], BESIDE)
    planned = bench.plan.without({cell.trial_id for cell in bench.plan.cells if cell.cell.platform == "native"})
    await bench.run(writer := bench.create(), planned)
    path = trial_of(Run.open(writer.folder), "uml.contention-cpu.tick-68us.r1").neighbours_path
    assert path is not None
    assert pq.read_table(path).to_pylist() == [
        {"neighbour": 1, "thread": 2, "start": 1500, "duration": 1000, "work": 10},
        {"neighbour": 1, "thread": 2, "start": 3500, "duration": 1000, "work": 10},
    ], "User-Mode Linux reads the host's own counter"


async def test_neighbours_do_what_the_machine_does_and_what_it_took_them_is_kept(tmp_path: Path) -> None:
    uml = UnlikePlatform("uml")
    bench = Bench(tmp_path, [ScriptedPlatform("native"), uml], ALIKE)
    tally = await bench.run(writer := bench.create())
    assert (len(tally.measured), tally.invalid, tally.failed) == (1, [], [])
    assert uml.neighbours.loads == []
    asked, theirs = uml.trials[0], uml.neighbours.trials
    assert [(one.probe, one.cpus, one.priority) for one in theirs] == [(asked.probe, [0], 0)] * 2
    run = Run.open(writer.folder)
    run.check_tables()
    trial = run.trials[0]
    for number, neighbour in enumerate(trial.record.neighbours, 1):
        assert (neighbour.name, neighbour.vcpus) == (f"neighbour {number}", 1)
        assert (neighbour.load, neighbour.outcome) == (None, None)
        assert neighbour.work is not None
        assert read_as(neighbour.work.result, Contention).elapsed_ns == scripted_agent.CONTENTION["elapsed_ns"]
    assert trial.neighbours_path is None
    tables = sorted(path.name for path in trial.folder.iterdir() if path.suffix == ".parquet")
    assert tables == ["host_counters.parquet", "iterations.parquet", "machine_counters.parquet"]


async def test_the_tables_of_a_neighbours_work_do_not_pile_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [ScriptedPlatform("uml")], ALIKE)
    placement = bench.plan.places.here["together"]
    probe = ContendCells.model_validate({"probe": "contend", "duration": "1s"}).parameter_sets()[0]
    asked = RunTrial(trial=1, probe=probe.request({}, 1), cpus=[0], priority=0, duration_ns=10**9)
    work = Work(asked, uses_every_cpu=True, needs=("iterations",), deadline_s=10)
    under_test = MachineRequest(((0, 1),), (0,), tmp_path)
    async with neighbours(placement, ScriptedPlatform("uml"), under_test) as around:
        await around.start(work, tmp_path / "tables")
        around.begin_work()
        results = await around.stop(is_whole=True)
    assert [one.name for one in results] == ["neighbour 1", "neighbour 2"]
    folders = sorted((tmp_path / "tables").iterdir())
    assert [(one.name, list(one.iterdir())) for one in folders] == [("neighbour-1", []), ("neighbour-2", [])]


async def test_a_neighbour_that_did_not_do_all_of_the_work_makes_the_trial_invalid(tmp_path: Path) -> None:
    uml = UnlikePlatform("uml", neighbours=ScriptedPlatform("uml", lambda _: "invalid"))
    bench = Bench(tmp_path, [ScriptedPlatform("native"), uml], ALIKE)
    tally = await bench.run(writer := bench.create())
    assert len(tally.invalid) == 1
    outcome = Run.open(writer.folder).trials[0].record.outcome
    assert outcome is not None
    found = [one.text for one in outcome.findings if one.code == "neighbour_invalid"]
    assert found == [f"neighbour {number}: the clock ran 900 ppm fast" for number in (1, 2)]


async def test_neighbours_do_not_go_on_with_the_work_of_a_trial_that_failed(tmp_path: Path) -> None:
    uml = UnlikePlatform("uml", lambda _: "refuse", neighbours=ScriptedPlatform("uml", lambda _: "until cancelled"))
    bench = Bench(tmp_path, [ScriptedPlatform("native"), uml], ALIKE)
    async with asyncio.timeout(20):
        tally = await bench.run(bench.create())
    assert (len(tally.failed), uml.neighbours.cancelled) == (1, 2)


def test_a_counter_is_mapped_without_losing_a_cycle_far_from_zero() -> None:
    import numpy as np

    times = np.array([(1 << 60) - 1, 1 << 60, (1 << 60) + 7], np.uint64)
    moved = CounterMap(machine_tsc=1 << 60, host_tsc=(1 << 61) + 5).to_host(times)
    assert moved.tolist() == [(1 << 61) + 4, (1 << 61) + 5, (1 << 61) + 12]
    doubled = CounterMap(machine_tsc=1 << 60, host_tsc=1 << 61, host_cycles_per_cycle=2.0)
    assert doubled.to_host(times).tolist() == [(1 << 61) - 2, 1 << 61, (1 << 61) + 14]
    assert doubled.lengths_to_host(np.array([3], np.uint64)).tolist() == [6]


async def test_a_neighbour_that_dies_makes_its_trial_invalid_and_the_rest_is_measured_beside_a_new_one(
    tmp_path: Path,
) -> None:
    deaths: list[int] = []

    def die_once(trial: int) -> str:
        if not deaths:
            deaths.append(trial)
            return "die"
        return "measure"

    uml = ScriptedPlatform("uml", load_behaviour=die_once)
    bench = Bench(tmp_path, [ScriptedPlatform("native"), uml], BESIDE)
    planned = bench.plan.without({cell.trial_id for cell in bench.plan.cells if cell.cell.platform == "native"})
    tally = await bench.run(writer := bench.create(), planned)
    assert tally.invalid == ["uml.contention-cpu.tick-68us.r1"]
    assert tally.measured == ["uml.contention-cpu.tick-68us.r1", "uml.contention-cpu.switch-2.r1"]
    assert [one.again for one in bench.recorder.of(Booting)] == [False, True]
    record = trial_of(Run.open(writer.folder), tally.invalid[0]).record
    assert record.outcome is not None
    (finding,) = [one for one in record.outcome.findings if one.code == "neighbour_died"]
    assert finding.level == "invalidates"
    assert "neighbour 1 (uml) died" in finding.text
    assert [one.outcome for one in record.neighbours] == [None]
    log = writer.folder / "cells" / record.trial_id / "neighbour-1.serial.log"
    assert "last words" in log.read_text()


async def test_a_neighbour_that_does_not_boot_fails_its_cells_and_not_its_platform(tmp_path: Path) -> None:
    text = BESIDE.replace('["contention-cpu"]', '["contention-cpu", "alone"]')
    bench = Bench(tmp_path, [ScriptedPlatform("native"), LonelyPlatform("uml")], text)
    planned = bench.plan.without({cell.trial_id for cell in bench.plan.cells if cell.cell.platform == "native"})
    tally = await bench.run(bench.create(), planned)
    assert tally.failed == ["uml.contention-cpu.tick-68us.r1", "uml.contention-cpu.switch-2.r1"]
    assert tally.measured == ["uml.alone.tick-68us.r1", "uml.alone.switch-2.r1"]
    failure = bench.recorder.of(CellFailed)[0].failure
    assert "neighbour 1 did not boot beside uml: no memory is left" in failure.message
    assert failure.hint == "take fewer"


async def test_traced_and_untraced_trials_take_turns_on_one_machine(tmp_path: Path) -> None:
    native = ScriptedPlatform("native")
    bench = Bench(tmp_path, [native], TRACED)
    order = [cell.trial_id.removeprefix("native.alone.") for cell in bench.plan.cells]
    assert order == [
        "tick-68us.r1", "tick-68us.traced.r1", "switch-2.traced.r1", "switch-2.r1",
        "tick-68us.traced.r2", "tick-68us.r2", "switch-2.r2", "switch-2.traced.r2",
    ]  # fmt: skip
    tally = await bench.run(writer := bench.create())
    assert len(tally.measured) == 8
    assert native.boots == 1 + 2 * 2, "to calibrate; then a machine and a tracer for each repetition"
    run = Run.open(writer.folder)
    run.check_tables()
    traced = [trial for trial in run.trials if trial.record.cell.traced]
    assert len(traced) == 4
    assert all(trial.host_trace_path is not None and trial.machine_trace_path is None for trial in traced)
    assert all(trial.host_trace_path is None for trial in run.trials if not trial.record.cell.traced)
    # All of them: who wakes the machine's threads may run anywhere.
    assert [request.cpus for request in native.traces] == [[]] * 4
    assert {request.hidden_threads for request in native.traces} == {None, "st-ring"}


async def test_a_guest_is_traced_inside_and_from_the_host(tmp_path: Path) -> None:
    guest = ScriptedPlatform("qemu-tcg-paravirt")
    bench = Bench(tmp_path, [ScriptedPlatform("native"), guest], TRACED.replace("repetitions = 2", ""))
    planned = bench.plan.without({cell.trial_id for cell in bench.plan.cells if cell.cell.platform == "native"})
    await bench.run(writer := bench.create(), planned)
    trial = trial_of(Run.open(writer.folder), "qemu-tcg-paravirt.alone.switch-2.traced.r1")
    assert trial.host_trace_path is not None
    assert trial.machine_trace_path is not None
    assert trial.record.host_tracing is not None
    assert trial.record.host_tracing.lost == 3
    assert read_description(trial.machine_trace_path)["names"] == ["hog"]
    own = next(request.tracing for request in guest.trials if request.tracing and request.probe.name == "switch")
    assert own.hidden_threads == "st-ring"
    files = write_tables_csv(trial, tmp_path)
    text = (tmp_path / "qemu-tcg-paravirt.alone.switch-2.traced.r1.host_trace.csv").read_text()
    assert text.splitlines()[1] == '1100,1,"runtime",1,0,2,120,"hog"'
    assert sorted(files.values()) == [1, 1]


async def test_a_host_that_refuses_to_be_traced_limits_the_trial(tmp_path: Path) -> None:
    native = ScriptedPlatform("native", untraceable="tracefs cannot be mounted: Operation not permitted")
    bench = Bench(tmp_path, [native], TRACED)
    tally = await bench.run(writer := bench.create())
    assert tally.failed == tally.invalid == []
    trial = trial_of(Run.open(writer.folder), "native.alone.tick-68us.traced.r1")
    assert trial.record.outcome is not None
    (finding,) = [one for one in trial.record.outcome.findings if one.code == "host_not_traced"]
    assert "tracefs cannot be mounted" in finding.text
    assert (finding.level, finding.hint) == ("limits", "mount tracefs")
    assert trial.host_trace_path is None


def test_the_rows_of_a_guest_with_a_counter_of_its_own_are_brought_to_the_hosts() -> None:
    """The guest's counter stands at 1,000 when the host's stands at 5,000,001,000; both run at 2 GHz."""

    def host(raw_ns: int) -> Alignment:
        return alignment(raw_ns, raw_ns, 2 * raw_ns)

    before, after = alignment(2_500_000_500, 0, 1000), alignment(3_500_000_500, 10**9, 2_000_001_000, error_ns=900)
    result = neighbour_result(before, after)
    table = neighbour_table(result, host(2_000_000_000), host(4_000_000_000))
    assert table is not None
    assert table.counter == CounterMap(1000, 5_000_001_000, 1.0)
    near = neighbour_table(replace(result, platform="uml"), None, None)
    assert near is not None
    assert near.counter == SAME_COUNTER


@pytest.mark.parametrize(("ppm", "is_wrong"), [(0, False), (400, False), (1_000, True), (-100_000, True)])
def test_a_neighbour_whose_second_is_not_the_hosts_is_warned_of(ppm: int, is_wrong: bool) -> None:
    counted = round(scripted_agent.load_outcome().tsc_hz * (1 + ppm / 1e6))
    result = neighbour_result(alignment(0, 0, 1000), alignment(10**9, 10**9, 1000 + counted))
    assert [one.code for one in neighbour_findings(result)] == ["neighbour_clock_disagrees"] * is_wrong


def test_a_neighbour_whose_load_was_put_on_another_cpu_makes_the_trial_invalid() -> None:
    counted = round(scripted_agent.load_outcome().tsc_hz)
    result = neighbour_result(alignment(0, 0, 1000), alignment(10**9, 10**9, 1000 + counted))
    text = "the load's thread 41 was to run on CPU 1, and was put on CPU 0 instead"
    moved = Finding(code="cpu_changed", level="invalidates", text=text)
    # Natively a load below a real-time thread may never run, which another finding says.
    idle = Finding(code="load_did_nothing", level="invalidates", text="the load never ran")
    outcome = scripted_agent.load_outcome().model_copy(update={"findings": [idle, moved]})
    did = Loaded(LoadRequest(kind=CpuLoad()), outcome, Path("load.arrows"))
    [found] = neighbour_findings(replace(result, did=did))
    assert (found.code, found.level, found.text) == ("cpu_changed", "invalidates", f"neighbour 1: {text}")


def neighbour_result(before: Alignment, after: Alignment) -> NeighbourResult:
    return NeighbourResult(
        name="neighbour 1", number=1, kind="machine", platform="qemu-tcg-paravirt", cpus=(1,), share=None, vcpus=1,
        did=Loaded(LoadRequest(kind=CpuLoad()), scripted_agent.load_outcome(), Path("load.arrows")),
        before=before, after=after, threads=(), throttling=None, delays=between(look((), ()), look((), ())),
    )  # fmt: skip


def alignment(host_raw_ns: int, machine_raw_ns: int, machine_tsc: int, error_ns: int = 100) -> Alignment:
    return Alignment(
        host_monotonic_raw_ns=host_raw_ns,
        machine_monotonic_raw_ns=machine_raw_ns,
        machine_tsc=machine_tsc,
        machine_minus_host_ns=machine_raw_ns - host_raw_ns,
        error_ns=error_ns,
        exchanges=1,
        bracket_tsc=10,
    )
