"""Counters, verdicts and neighbours on real guests whose provisioning is known."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from machines import CPUS, HOUSEKEEPING_CPU, MEASURED_CPU, needs_root, require_usable, until
from trace_instances import instances
from truth import some_of
from watched_guests import faulting, move, ours, prefer

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters import monitor
from stealtime.capacity.gather import uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.judgement import Judgement, judge
from stealtime.capacity.rules import load_rules
from stealtime.capacity.sample import GuestSample
from stealtime.capacity.use import Use, between
from stealtime.capacity.watch.neighbours import buffer_bytes, read_neighbours
from stealtime.lab.platforms import host_views, registry
from stealtime.lab.platforms.machine import BootedMachine
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.share import Share
from stealtime.lab.tracing.host import host_tracer
from stealtime.vocabulary.readings import Absent, Value
from stealtime.wire.load import CpuLoad, LoadRequest
from stealtime.wire.message import TraceRequest

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

RULES = load_rules()
INTERVAL_S = 0.5
SAMPLES = 12
"""Ten are needed for a verdict."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""How fine the kernel tells the times of CPUs."""
SPIN = "while True: pass"
WAITS = {"over-committed host", "misplaced guests"}
"""Which of the two depends on whether something else keeps the other CPUs busy."""


@asynccontextmanager
async def guest(
    folder: Path, *, threads: int, cpu: int = MEASURED_CPU, platform: str = "uml", share: Share | None = None
) -> AsyncIterator[BootedMachine]:
    """Boot a guest with one virtual CPU on ``cpu`` and let so many threads work in it."""
    await require_usable(platform)
    await asyncio.to_thread(folder.mkdir)
    request = MachineRequest(
        vcpu_cpus=((cpu,),),
        housekeeping_cpus=(HOUSEKEEPING_CPU,),
        folder=folder,
        memory_bytes=128 << 20,
        share=share,
        group=folder.name,
    )
    async with registry.find(platform).boot(request) as machine:
        assert isinstance(machine, BootedMachine)
        if threads:
            await machine.connection.start_load(0, LoadRequest(kind=CpuLoad(), threads=threads))
        yield machine


async def watch(*machines: BootedMachine, samples: int = SAMPLES, view: bool = False) -> list[Use]:
    """Watch our own guests only: whatever else runs on this host is no part of the case."""
    asking = GuestViews({})
    seen: list[Use] = []
    with Collector(guest_view=asking.of if view else None) as collector:
        async for use in uses_beside(collector, INTERVAL_S):
            keys = ours(collector, *machines)
            mine = {key: one for key, one in use.guests.items() if key in keys}
            seen.append(replace(use, guests=mine))
            if len(seen) == samples:
                break
    asking.close()
    return seen


def verdicts(seen: Sequence[Use]) -> tuple[Judgement, list[Judgement]]:
    return judge(seen, RULES)


def least_run_percent(seen: Sequence[Use]) -> float:
    return min(vcpu.run_percent for use in seen for one in use.guests.values() for vcpu in one.vcpus.values())


def explained(*judgements: Judgement) -> str:
    return "; ".join(f"{one.subject}: {one.verdict} ({one.because}) {one.outcome}" for one in judgements)


@pytest.mark.parametrize("platform", some_of(["uml", "qemu-tcg-paravirt"], "uml"))
async def test_two_busy_guests_on_one_cpu_are_an_over_committed_host(
    tmp_path: Path, platform: str, tell: Callable[[str], None]
) -> None:
    async with AsyncExitStack() as stack:
        pair = [
            await stack.enter_async_context(guest(tmp_path / name, threads=1, platform=platform)) for name in ("a", "b")
        ]
        for machine in pair:
            prefer(machine)
        seen = await watch(*pair)
    host, guests = verdicts(seen)
    assert len(guests) == 2
    assert {one.verdict for one in (host, *guests)} <= WAITS, explained(host, *guests)
    # Each has half of the CPU and waits for the other half.
    for one in guests:
        figures = one.figures.parts["vCPU 0"]
        assert 35 < figures["vcpu_run_percent"].mean < 55
        assert 35 < figures["vcpu_wait_percent"].mean < 65


@pytest.mark.truth
@pytest.mark.skipif(len(CPUS) < 2, reason="where guests fit each needs a CPU")
async def test_guests_whose_pages_fault_over_commit_one_cpu_and_fit_on_two(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    # The processes of such a guest hand its virtual CPU to each other thousands of times a second, and wait each time.
    async with AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(guest(tmp_path / name, threads=0)) for name in ("a", "b")]
        for machine in pair:  # once both have booted: one that is preferred leaves nothing to do so with
            prefer(machine)
            await stack.enter_async_context(faulting(machine, tmp_path / f"work-{pair.index(machine)}"))
        together = await watch(*pair, samples=RULES.minimum_samples)
        move(pair[0], HOUSEKEEPING_CPU)
        apart = await watch(*pair, samples=RULES.minimum_samples)
    host, guests = verdicts(together)
    assert {one.verdict for one in (host, *guests)} <= WAITS, explained(host, *guests)
    for one in guests:
        figures = one.figures.parts["vCPU 0"]
        assert 35 < figures["vcpu_run_percent"].mean < 55
        assert 35 < figures["vcpu_wait_share_percent"].mean < 65
        assert figures["wait_per_dispatch_ns"].mean < 60_000, "then it is no case for a rule of its own"
    host, guests = verdicts(apart)
    assert not WAITS & {one.verdict for one in (host, *guests)}, explained(host, *guests)
    assert [one.figures.parts["vCPU 0"]["vcpu_wait_share_percent"].mean < 20 for one in guests] == [True, True]


@pytest.mark.truth
async def test_a_guest_that_idles_makes_no_host_over_committed(tmp_path: Path) -> None:
    before = psutil.cpu_times(percpu=True)
    async with guest(tmp_path / "a", threads=0) as machine:
        # Of twenty one may be busy: something else of the host always runs now and then.
        seen = await watch(machine, samples=20)
    busy = [busy_percent(first, last) for first, last in zip(before, psutil.cpu_times(percpu=True), strict=True)]
    host, (judged,) = verdicts(seen)
    assert judged.figures.parts["vCPU 0"]["vcpu_run_percent"].mean < 20
    if max(busy) < 25:
        assert host.verdict == "over-provisioned host", explained(host)
        assert judged.verdict == "efficiently provisioned"
    else:
        # Somebody else works here, as a second look at the CPUs says.
        assert host.verdict != "over-provisioned host" or max(busy) < 40, f"busy {busy}: {explained(host)}"


@pytest.mark.truth
async def test_a_guest_with_a_queue_of_its_own_is_under_provisioned(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    async with guest(tmp_path / "a", threads=6) as machine:
        prefer(machine)
        unseen = await watch(machine)
        ran_percent = least_run_percent(unseen)
        assert ran_percent >= 95, f"this host is not quiet: others left the guest {ran_percent:.0f} % of its CPU"
        seen = await watch(machine, view=True)
    _, (judged,) = verdicts(seen)
    assert judged.verdict == "under-provisioned guest", explained(judged)
    assert judged.outcome is not None
    assert judged.outcome.rule.id == "run-queue"
    assert judged.figures.whole["queue_per_vcpu"].mean == pytest.approx(5.0, abs=0.5)
    _, (withheld,) = verdicts(unseen)
    assert withheld.verdict == "not judged"
    assert "--guest-view" in (withheld.because or "")


@pytest.mark.truth
async def test_a_guest_that_a_quota_holds_back_is_told_so_and_its_host_is_not_blamed(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    async with guest(tmp_path / "a", threads=1, share=Share(quota_percent=50, weight=10_000)) as machine:
        prefer(machine)
        seen = await watch(machine)
    host, (judged,) = verdicts(seen)
    assert judged.verdict == "under-provisioned guest", explained(judged)
    assert judged.outcome is not None
    assert judged.outcome.rule.id == "quota"
    assert judged.figures.whole["throttled_percent"].mean == pytest.approx(50, abs=12)
    assert host.verdict not in WAITS, explained(host)


async def test_a_guest_that_is_killed_while_it_is_watched_spoils_nothing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        stays = await stack.enter_async_context(guest(tmp_path / "stays", threads=0))
        goes = await stack.enter_async_context(guest(tmp_path / "goes", threads=1))
        collector = stack.enter_context(Collector())
        collector.sample()
        keys = ours(collector, stays, goes)
        assert sorted(keys.values()) == [0, 1]
        (victim,) = (pid for (pid, _), number in keys.items() if number == 1)
        os.kill(victim, signal.SIGKILL)
        left: list[tuple[int, int]] = []
        for _ in range(40):
            await asyncio.sleep(0.05)
            left = [key for key in collector.sample().guests if key in keys]
            if len(left) == 1:
                break
        assert [keys[key] for key in left] == [0]


def busy_percent(first: Any, last: Any) -> float:
    """Give how busy a CPU was between two answers of ``psutil.cpu_times``."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    gained: dict[str, float] = {name: getattr(last, name) - getattr(first, name) for name in names}
    total = sum(gained.values())
    return 100 * (total - gained["idle"] - gained["iowait"] - gained["steal"]) / total


@pytest.mark.truth
async def test_counters_agree_with_psutil_and_a_second_reader(tmp_path: Path, tell: Callable[[str], None]) -> None:
    async with guest(tmp_path / "a", threads=1, platform="qemu-tcg-paravirt") as machine:
        threads = [thread.tid for thread in machine.threads() if thread.role == "vcpu"]
        (qemu,) = {psutil.Process(thread.tid).pid for thread in machine.threads() if thread.role == "emulator"} & set(
            psutil.pids()
        )
        with Collector() as collector:
            collector.sample()
            cpus, delays = psutil.cpu_times(percpu=True), host_views.look(threads, CPUS)
            used = {one.id: one.user_time + one.system_time for one in psutil.Process(qemu).threads()}
            begin, before = time.monotonic(), collector.sample()
            await asyncio.sleep(5)
            after, elapsed_s = collector.sample(), time.monotonic() - begin
            used_after = {one.id: one.user_time + one.system_time for one in psutil.Process(qemu).threads()}
            gained = host_views.between(delays, host_views.look(threads, CPUS))
            cpus_after = psutil.cpu_times(percpu=True)
            key = next(iter(ours(collector, machine)))
            use = between(before, after)
    one = use.guests[key]
    (vcpu,) = one.vcpus.values()
    assert vcpu.run_percent / 100 * elapsed_s == pytest.approx(used_after[threads[0]] - used[threads[0]], abs=0.15)
    assert isinstance(gained.run_delay_ns, Value)
    assert isinstance(gained.run_delay_ns.value, int)
    assert vcpu.wait_percent / 100 * elapsed_s == pytest.approx(gained.run_delay_ns.value / 1e9, abs=0.1)
    assert one.allowed_cpus == frozenset({MEASURED_CPU})
    assert not isinstance(use.cpus, Absent)
    for cpu, (first, last) in enumerate(zip(cpus, cpus_after, strict=True)):
        assert use.cpus[cpu].busy_percent == pytest.approx(busy_percent(first, last), abs=3)
    available = psutil.virtual_memory()
    assert use.memory_available_percent == pytest.approx(100 * available.available / available.total, abs=2)


@contextmanager
def hog(cpu: int) -> Iterator[subprocess.Popen[bytes]]:
    """Keep one CPU busy with a process that is no guest."""
    process = subprocess.Popen(["taskset", "--cpu-list", str(cpu), sys.executable, "-c", SPIN])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def not_counted_s(cpu: int) -> float:
    """Give what a CPU spent while a thread was on it, but did not count as that thread's time."""
    times = psutil.cpu_times(percpu=True)[cpu]
    return float(times.steal + times.irq + times.softirq)


@pytest.mark.skipif(len(CPUS) < 2, reason="a neighbour elsewhere needs a second CPU")
@pytest.mark.parametrize("platform", some_of(["uml", "qemu-tcg-paravirt"], "uml"))
async def test_neighbours_are_named_and_nobody_else_is_blamed(
    tmp_path: Path, platform: str, tell: Callable[[str], None]
) -> None:
    other_cpu = next(cpu for cpu in CPUS if cpu != MEASURED_CPU)
    async with (
        guest(tmp_path / "a", threads=1, platform=platform) as machine,
        host_tracer(tmp_path, (other_cpu,)) as tracer,
    ):
        with hog(MEASURED_CPU) as here, hog(other_cpu) as elsewhere, Collector() as collector:
            await asyncio.sleep(0.5)
            collector.sample()
            (key,) = ours(collector, machine)
            watched, threads = collector.threads()[key]
            vcpus = {(watched.name, 0): {thread.tid for thread in threads if thread.role == "vcpu"}}
            members = {thread.tid: watched.name for thread in threads}
            assert await tracer.start(1, TraceRequest(cpus=[], buffer_bytes_per_cpu=buffer_bytes(len(CPUS))))
            begin, before, uncounted = time.monotonic(), run_ns(here.pid), not_counted_s(MEASURED_CPU)
            await asyncio.sleep(2.0)
            took_s, inside_s = (run_ns(here.pid) - before) / 1e9, time.monotonic() - begin
            uncounted_s = not_counted_s(MEASURED_CPU) - uncounted
            result = await tracer.stop(1, tmp_path)
    assert result is not None
    found = read_neighbours(result, vcpus, members)
    assert found.absent is None
    blamed_s = dict.fromkeys((here.pid, elsewhere.pid), 0.0)
    for blame in found.blames:
        if blame.tid in blamed_s:
            blamed_s[blame.tid] += blame.percent / 100 * found.window_s
    # The guest always wants the CPU: whatever the hog beside it ran, the guest waited for. The trace begins a little
    # before the hog's time is read, and ends a little later; and it has what interrupts and this host's own host took.
    more_s = found.window_s - inside_s + uncounted_s + 2 * TICK_S
    assert 0.95 * took_s <= blamed_s[here.pid] <= 1.01 * took_s + more_s, (found, took_s, inside_s, uncounted_s)
    assert blamed_s[elsewhere.pid] <= 0.01 * sum(one.percent for one in found.blames) / 100 * found.window_s, found


@contextmanager
def halted_qemu(*options: str) -> Iterator[int]:
    """Start a QEMU that never runs its guest."""
    argv = ["qemu-system-x86_64", "-S", "-nodefaults", "-no-user-config", "-display", "none", "-m", "64", *options]
    process = subprocess.Popen([*argv, "-machine", "q35,accel=tcg", "-smp", "2"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


async def test_a_qemu_without_names_tells_its_virtual_cpus_over_qmp(tmp_path: Path) -> None:
    await require_usable("qemu-tcg-paravirt")
    path = tmp_path / "qmp.sock"
    with halted_qemu("-qmp", f"unix:{path},server=on,wait=off", "-device", "virtio-balloon-pci") as pid:
        assert await until(path.exists)
        with Collector() as collector:

            def look() -> GuestSample | None:
                return next((one for one in collector.sample().guests.values() if one.guest.pid == pid), None)

            # Its monitor takes connections before it answers.
            assert await until(lambda: (one := look()) is not None and one.unreadable is None)
            found = look()
        assert found is not None
        assert [thread.vcpu for thread in found.threads if thread.role == "vcpu"] == [0, 1]
        looked = await monitor.look(found.guest)
        assert looked.balloon_bytes == Value(value=64 << 20)
        assert isinstance(looked.counters, Absent), "TCG has no exits, which is not zero"
        # A monitor that somebody holds is left to him, after a while.
        with socket.socket(socket.AF_UNIX) as held:
            held.connect(str(path))
            looked = await monitor.look(found.guest)
        assert isinstance(looked.balloon_bytes, Absent)
        assert "in use by somebody else" in looked.balloon_bytes.absent


async def test_a_qemu_without_names_and_monitor_is_not_judged() -> None:
    await require_usable("qemu-tcg-paravirt")
    with halted_qemu() as pid, Collector() as collector:
        await asyncio.sleep(0.5)
        (found,) = [one for one in collector.sample().guests.values() if one.guest.pid == pid]
    assert found.unreadable is not None
    assert "debug-threads=on" in found.unreadable.absent


@pytest.mark.beside
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_watch_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = start_watch(port, tmp_path)
    try:
        # Until the agent that traces is up, and metrics are served.
        assert await until(lambda: bool(psutil.Process(process.pid).children()) and is_served(port), within_s=60)
        agents = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        assert await until(lambda: process.poll() is not None, within_s=20)
    finally:
        process.kill()
        _, told = process.communicate()
    assert process.returncode == 0
    # Where no guest runs there is nobody whose neighbours could be named.
    assert told.splitlines()[0] == f"metrics: http://127.0.0.1:{port}/metrics".encode()
    assert b"Traceback" not in told
    assert await until(lambda: not any(agent.is_running() for agent in agents))
    assert instances_of(agents) == []
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    assert not is_served(port)


def instances_of(agents: list[psutil.Process]) -> list[str]:
    return [name for name in instances() if any(f":{agent.pid}:" in name for agent in agents)]


def start_watch(port: int, temporary: Path) -> subprocess.Popen[bytes]:
    argv = [str(Path(sys.executable).with_name("stealtime")), "watch", "--prometheus", str(port), "--neighbours"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def is_served(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            return b"stealtime_host_cpu_seconds_total" in answer.read()
    except OSError:
        return False
