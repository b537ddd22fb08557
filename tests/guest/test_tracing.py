"""The kernel's events of a host and of its guests: what was done on purpose is found in them, and nothing is left."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
import pytest_asyncio
from injected_stalls import calibrated_tick, read_table
from machines import HOUSEKEEPING_CPU, PRIORITY, marked_processes, needs_root, request_for, require_usable, until

from stealtime._core import owner_fate, owner_of
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.host_views import between, look
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.uml import kernel_threads
from stealtime.lab.tracing.host import HostTracer, host_tracer
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import Injection, RunTrial, SwitchProbe, TraceRequest, TrialOutcome
from stealtime.wire.results import TrialResult

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

SWITCH, VECTOR_ENTRY, GUEST_SWITCH, LOST = 0, 6, 11, 12
"""Of the column ``kind``."""

EVERY_NS, STEAL_NS, DURATION_NS = 50_000_000, 10_000_000, 1_000_000_000


@pytest.fixture(scope="module")
def tracefs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tracefs of the test's own to look into, or none where the kernel has none."""
    folder = tmp_path_factory.mktemp("tracefs")
    mounted = subprocess.run(["mount", "-t", "tracefs", "tracefs", folder], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"tracefs cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest_asyncio.fixture(loop_scope="session")
async def tracer(tmp_path: Path, tracefs: Path) -> AsyncIterator[HostTracer]:
    folder = tmp_path / "tracer"
    folder.mkdir()
    async with host_tracer(folder, (HOUSEKEEPING_CPU,)) as running:
        yield running
    assert instances(tracefs) == [], "an instance outlived its tracer"


def instances(tracefs: Path) -> list[str]:
    """Give the instances of agents that this process has started, or that nobody owns any more."""
    ours = {owner_of(process.pid) for process in marked_processes(run_mark())}
    marks = {name: name.removeprefix("stealtime-").rpartition("-")[0] for name in _names(tracefs)}
    return [name for name, mark in marks.items() if mark in ours or owner_fate(mark) == "gone"]


def _names(tracefs: Path) -> list[str]:
    return [folder.name for folder in (tracefs / "instances").iterdir()]


@asynccontextmanager
async def booted(name: str, folder: Path) -> AsyncIterator[Machine]:
    await require_usable(name)
    await asyncio.to_thread(folder.mkdir)
    async with registry.find(name).boot(request_for(folder)) as machine:
        yield machine


async def switch_trial(machine: Machine, folder: Path, tracing: TraceRequest | None) -> TrialResult:
    request = RunTrial(
        trial=1,
        probe=SwitchProbe(threads=2),
        cpus=[machine.measured_cpus[0]],
        priority=PRIORITY,
        duration_ns=50_000_000,
        tracing=tracing,
    )
    return await machine.connection.run_trial(request, folder, deadline_s=60)


async def stolen_trial(machine: Machine, folder: Path, tracing: TraceRequest | None = None) -> TrialResult:
    request = RunTrial(
        trial=1,
        probe=await calibrated_tick(machine),
        cpus=[machine.measured_cpus[0]],
        priority=PRIORITY,
        duration_ns=DURATION_NS,
        lift_rt_throttling=True,
        injection=Injection(every_ns=EVERY_NS, steal_ns=STEAL_NS),
        tracing=tracing,
    )
    return await machine.connection.run_trial(request, folder, deadline_s=90)


def rows_of(path: Path | None, kind: int) -> dict[str, Any]:
    """Give the columns of the rows of one kind."""
    table: pa.Table = read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    chosen = columns["kind"] == kind
    return {name: values[chosen] for name, values in columns.items()}


def thread_of(outcome: TrialOutcome, role: str) -> Any:
    return next(thread for thread in outcome.threads if thread.role == role)


def switches_between(path: Path | None, threads: list[int]) -> int:
    rows = rows_of(path, SWITCH)
    return int(np.count_nonzero(np.isin(rows["thread"], threads) & np.isin(rows["other"], threads)))


async def test_the_switches_of_two_threads_are_all_found(native: Machine, tracer: HostTracer, tmp_path: Path) -> None:
    assert await tracer.start(1, TraceRequest()), tracer.absent
    assert tracer.groups["sched"] == Value(value=True)
    result = await switch_trial(native, tmp_path, None)
    traced = await tracer.stop(1, tmp_path)
    assert traced is not None
    assert traced.outcome.lost == 0, traced
    ring = [thread for thread in result.outcome.threads if thread.name == "st-ring"]
    assert [thread.role for thread in ring] == ["probe", "probe"], result.outcome.threads
    found = switches_between(traced.trace, [thread.id for thread in ring])
    counted = result.outcome.counters["turns"]
    # A turn that another thread interrupts is a switch from one and a switch to the other, not one between them. At
    # both ends the trace is on for a few turns that are not counted.
    assert abs(found - counted) <= 0.02 * counted, (found, counted)
    times = read_table(traced.trace)["time"].to_numpy()
    assert np.all(times[:-1] <= times[1:])
    start, end = traced.outcome.start.tsc, traced.outcome.end.tsc
    assert start <= result.outcome.clock.start.tsc < result.outcome.clock.end.tsc <= end


async def test_hidden_threads_hide_only_what_they_do_to_each_other(native: Machine, tmp_path: Path) -> None:
    result = await switch_trial(native, tmp_path, TraceRequest(hidden_threads="st-ring"))
    tracing = result.outcome.tracing
    assert tracing is not None
    assert tracing.groups["sched"] == Value(value=True), tracing
    ring = [thread.id for thread in result.outcome.threads if thread.name == "st-ring"]
    assert switches_between(result.trace, ring) == 0
    rows = rows_of(result.trace, SWITCH)
    assert np.any(np.isin(rows["thread"], ring) | np.isin(rows["other"], ring)), "the ring left the CPU at its end"


async def test_a_buffer_that_is_too_small_tells_what_it_lost(native: Machine, tmp_path: Path) -> None:
    result = await switch_trial(native, tmp_path, TraceRequest(buffer_bytes_per_cpu=16 << 10))
    tracing = result.outcome.tracing
    assert tracing is not None
    assert tracing.lost > 1000, tracing
    rows = rows_of(result.trace, LOST)
    assert int(rows["value"].sum()) == tracing.lost
    assert "trace_events_lost" in [finding.code for finding in tracing.findings]
    ring = [thread.id for thread in result.outcome.threads if thread.name == "st-ring"]
    kept = switches_between(result.trace, ring)
    assert kept < result.outcome.counters["turns"] <= kept + tracing.lost


async def test_a_request_that_makes_no_sense_names_the_value(native: Machine, tmp_path: Path) -> None:
    connection = native.connection
    with pytest.raises(StealtimeError, match="cpus = 4095"):
        await connection.start_tracing(1, TraceRequest(cpus=[4095]))
    with pytest.raises(StealtimeError, match="hidden_threads"):
        await connection.start_tracing(1, TraceRequest(hidden_threads='a" || 1'))
    with pytest.raises(StealtimeError, match="no trace for trial 7"):
        await connection.stop_tracing(7, tmp_path)


async def test_the_trace_of_a_killed_agent_is_removed_at_once(tmp_path: Path, tracefs: Path) -> None:
    agent, _ = await traced_until_killed(tmp_path, tracefs, spare_watchdog=True)
    assert await until(lambda: not has_instance(tracefs, agent)), "the watchdog left the instance"


async def test_the_trace_of_a_killed_agent_and_watchdog_is_removed_at_the_next_start(
    tmp_path: Path, tracefs: Path
) -> None:
    agent, watchdog = await traced_until_killed(tmp_path, tracefs, spare_watchdog=False)
    assert await until(lambda: not watchdog.is_running() or watchdog.status() == psutil.STATUS_ZOMBIE)
    assert has_instance(tracefs, agent), "nobody was left to remove it"
    done = subprocess.run([find_agent(), "restore"], capture_output=True, text=True, timeout=30, check=False)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr
    assert "trace instance removed: stealtime-" in done.stderr
    assert f":{agent}:" in done.stderr
    assert not has_instance(tracefs, agent)


async def traced_until_killed(folder: Path, tracefs: Path, *, spare_watchdog: bool) -> tuple[int, psutil.Process]:
    """Kill an agent that traces; give its pid and its watchdog."""
    before = set(marked_processes(run_mark()))
    async with booted("native", folder / "killed") as machine:
        await machine.connection.start_tracing(1, TraceRequest())
        started = [process for process in marked_processes(run_mark()) if process not in before]
        agent = next(process for process in started if process.cmdline()[-1] == "serve")
        watchdog = next(process for process in started if "--when-closed" in process.cmdline())
        assert has_instance(tracefs, agent.pid)
        if not spare_watchdog:
            # The watchdog first: it must not see the agent go.
            watchdog.kill()
        agent.kill()
        with pytest.raises(StealtimeError, match="SIGKILL"):
            await machine.connection.stop_tracing(1, folder)
    return agent.pid, watchdog


def has_instance(tracefs: Path, process: int) -> bool:
    return any(f":{process}:" in name for name in _names(tracefs))


async def test_a_guest_under_an_emulator_is_traced_from_within(tmp_path: Path) -> None:
    async with booted("qemu-tcg-paravirt", tmp_path / "guest") as machine:
        result = await stolen_trial(machine, tmp_path, TraceRequest())
    tracing = result.outcome.tracing
    assert tracing is not None
    assert tracing.groups["sched"] == Value(value=True), tracing
    thief = thread_of(result.outcome, "injection")
    switches = rows_of(result.trace, SWITCH)
    to_thief = switches["time"][switches["other"] == thief.id]
    assert len(to_thief) >= result.outcome.counters["injected"] > 10
    names = {tracing.names[name] for name in switches["name"][switches["other"] == thief.id]}
    assert names == {"inject"}
    ticks = rows_of(result.trace, VECTOR_ENTRY)
    assert "local_timer" in {tracing.names[name] for name in ticks["name"]}
    clock = result.outcome.clock
    assert np.all((ticks["time"] >= clock.start.tsc - clock.tsc_hz) & (ticks["time"] <= clock.end.tsc))


async def test_a_user_mode_linux_guest_is_seen_through_from_the_host(tracer: HostTracer, tmp_path: Path) -> None:
    async with booted("uml", tmp_path / "guest") as machine:
        kernels = kernel_threads(machine.threads())
        assert await tracer.start(1, TraceRequest(user_mode_linux=kernels)), tracer.absent
        result = await stolen_trial(machine, tmp_path, TraceRequest())
        traced = await tracer.stop(1, tmp_path / "guest")
    assert traced is not None
    assert traced.outcome.lost == 0, traced
    thief = thread_of(result.outcome, "injection")
    switches = rows_of(traced.trace, GUEST_SWITCH)
    assert set(switches["thread"]) <= set(kernels)
    events = read_table(result.events)
    stolen = np.array(events["kind"].to_pylist()) == "injected"
    middle = events["start"].to_numpy()[stolen] + events["duration"].to_numpy()[stolen] // 2
    middle += np.uint64(result.outcome.clock.origin_units)
    assert len(middle) > 10
    # Who the guest let run last before the middle of each theft.
    running = switches["value"][np.searchsorted(switches["time"], middle) - 1]
    assert np.mean(running == thief.thread_pointer) >= 0.95, (running, result.outcome.threads)
    # Its own kernel has no tracefs: that is said, and the trial is measured all the same.
    tracing = result.outcome.tracing
    assert tracing is not None
    assert [finding.code for finding in tracing.findings] == ["not_traced"], tracing
    assert result.trace is None
    assert all(one.level == "limits" for one in result.outcome.findings)


async def test_two_busy_threads_on_one_cpu_delay_each_other(tmp_path: Path) -> None:
    loop = "while :; do :; done"
    pinned = ["taskset", "--cpu-list", str(HOUSEKEEPING_CPU), "bash", "-c", loop]
    hogs = [await asyncio.create_subprocess_exec(*pinned) for _ in range(2)]
    try:
        threads = [hog.pid for hog in hogs]
        before = look(threads, [HOUSEKEEPING_CPU])
        await asyncio.sleep(0.5)
        delays = between(before, look(threads, [HOUSEKEEPING_CPU]))
    finally:
        for hog in hogs:
            hog.kill()
            await hog.wait()
    assert isinstance(delays.run_delay_ns, Value), delays
    assert isinstance(delays.run_delay_ns.value, int), delays
    # Together they wait for as long as one of them runs, and longer if others want the CPU too.
    assert delays.run_delay_ns.value > 0.3e9, delays
    assert isinstance(delays.steal_ns, Value), delays
