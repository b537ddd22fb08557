"""Real machines: each platform that is usable here comes up, is pinned as asked, measures, and goes away."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from fabricated_kernel import write_hanging_kernel, write_panicking_kernel
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, marked_processes, request_for, require_usable, until
from truth import some_of

from stealtime.campaigns.staying import Staying
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.process import run_mark
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import RunTrial, TickProbe

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.asyncio(loop_scope="session")]

GUESTS = ("uml", "qemu-tcg-emulated", "qemu-tcg-paravirt")


async def test_a_machine_says_what_it_is(machine: Machine) -> None:
    facts = machine.agent_facts
    release = facts["kernel_release"]
    assert isinstance(release, Value)
    if machine.platform == "native":
        assert release.value == os.uname().release
    else:
        assert release.value == machine.boot.facts["kernel_release"]
    if machine.platform.startswith("qemu-"):
        assert machine.boot.facts["accelerator"] == machine.platform.split("-")[1]
        assert facts["realtime_kernel"] == Value(value=True)
    assert machine.exit_reason() is None


async def test_every_thread_runs_where_it_was_asked_to(machine: Machine) -> None:
    threads = machine.threads()
    vcpus = [thread for thread in threads if thread.role == "vcpu"]
    others = [thread for thread in threads if thread.role != "vcpu"]
    if machine.platform != "native":
        assert vcpus, threads
    for thread in vcpus:
        assert os.sched_getaffinity(thread.tid) == {MEASURED_CPU} == set(thread.cpus), thread
    for thread in others:
        assert os.sched_getaffinity(thread.tid) == {HOUSEKEEPING_CPU} == set(thread.cpus), thread
    if machine.platform.startswith("qemu-"):
        assert len(vcpus) == 1
        assert others, "QEMU's main thread must be among the threads"


@pytest.mark.skipif(MEASURED_CPU == HOUSEKEEPING_CPU, reason="needs two CPUs")
async def test_a_vcpu_that_somebody_puts_elsewhere_is_found(machine: Machine) -> None:
    if machine.platform == "native":
        pytest.skip("natively there is no vCPU")
    vcpus = [thread for thread in machine.threads() if thread.role == "vcpu"]
    stays = Staying.begin([(machine.platform, machine.threads())])
    stays.look()
    assert stays.finding is None
    os.sched_setaffinity(vcpus[0].tid, {HOUSEKEEPING_CPU})
    try:
        stays.look()
    finally:
        os.sched_setaffinity(vcpus[0].tid, {MEASURED_CPU})
    assert stays.finding is not None
    assert f"was put on CPU {HOUSEKEEPING_CPU} instead" in stays.finding.text
    # Back where it was: the kernel has counted that it was away.
    returned = Staying.begin([(machine.platform, machine.threads())])
    os.sched_setaffinity(vcpus[0].tid, {HOUSEKEEPING_CPU})
    assert await until(lambda: _last_cpu(vcpus[0].tid) == HOUSEKEEPING_CPU)
    os.sched_setaffinity(vcpus[0].tid, {MEASURED_CPU})
    assert await until(lambda: _last_cpu(vcpus[0].tid) == MEASURED_CPU)
    returned.end()
    assert returned.finding is not None
    assert "by the kernel meanwhile" in returned.finding.text


def _last_cpu(tid: int) -> int:
    """Field 39 of proc_pid_stat(5)."""
    return int(Path(f"/proc/{tid}/stat").read_text().rsplit(")", 1)[1].split()[36])


async def test_two_clock_alignments_agree_within_their_bounds(machine: Machine) -> None:
    first = await machine.connection.exchange_clocks()
    second = await machine.connection.exchange_clocks()
    passed_ns = second.host_monotonic_raw_ns - first.host_monotonic_raw_ns
    # Both clocks are the same quartz, through another clocksource: 500 ppm is the limit of a valid trial.
    drift_ns = 500e-6 * passed_ns
    apart_ns = abs(first.machine_minus_host_ns - second.machine_minus_host_ns)
    assert apart_ns <= first.error_ns + second.error_ns + drift_ns, (first, second)


async def test_a_short_trial_comes_back_whole(machine: Machine, tmp_path: Path) -> None:
    calibrated = await machine.connection.calibrate(68_000, machine.measured_cpus[-1], 80)
    assert calibrated.iterations > 0
    request = RunTrial(
        trial=1,
        probe=TickProbe(iterations=calibrated.iterations),
        cpus=list(machine.measured_cpus),
        priority=80,
        duration_ns=300_000_000,
    )
    result = await machine.connection.run_trial(request, tmp_path, deadline_s=60)
    with pa.OSFile(str(result.samples)) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table.column_names == ["duration"]
    assert table.num_rows == result.outcome.counters["recorded"] > 100
    assert result.outcome.placement.cpu in machine.measured_cpus
    with pytest.raises(StealtimeError, match="4095"):
        await machine.connection.run_trial(
            request.model_copy(update={"trial": 2, "cpus": [4095]}), tmp_path, deadline_s=60
        )
    assert (await machine.connection.exchange_clocks(count=1)).error_ns > 0, (
        "a refused trial must leave the agent alive"
    )


BOOT_AND_WAIT = """
import asyncio, sys
from pathlib import Path
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import run_mark

async def main():
    request = MachineRequest(((int(sys.argv[2]),),), (int(sys.argv[3]),), Path(sys.argv[4]))
    async with registry.find(sys.argv[1]).boot(request):
        print(run_mark(), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("name", some_of(["native", *GUESTS], "native", "qemu-tcg-paravirt"))
async def test_killing_the_control_plane_leaves_no_process(name: str, tmp_path: Path) -> None:
    await require_usable(name)
    argv = [sys.executable, "-c", BOOT_AND_WAIT, name, str(MEASURED_CPU), str(HOUSEKEEPING_CPU), str(tmp_path)]
    control = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    assert control.stdout is not None
    mark = (await asyncio.wait_for(control.stdout.readline(), 90)).decode().strip()
    assert marked_processes(mark), "the machine's processes must carry the mark"
    control.send_signal(signal.SIGKILL)
    await control.wait()
    assert await until(lambda: not marked_processes(mark)), marked_processes(mark)


@pytest.mark.parametrize("name", some_of(GUESTS, "uml", "qemu-tcg-paravirt"))
async def test_a_guest_that_is_killed_while_measuring_is_told_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    await require_usable(name)
    before = set(marked_processes(run_mark()))
    async with registry.find(name).boot(request_for(tmp_path)) as machine:
        vcpu = next(thread for thread in machine.threads() if thread.role == "vcpu")
        request = RunTrial(
            trial=1,
            probe=TickProbe(iterations=1000),
            cpus=list(machine.measured_cpus),
            priority=80,
            duration_ns=60_000_000_000,
            max_samples=1_000_000,
        )
        asyncio.get_running_loop().call_later(0.2, os.kill, vcpu.tid, signal.SIGKILL)
        with pytest.raises(StealtimeError, match=r"closed its channel while running trial 1: .* SIGKILL") as caught:
            await machine.connection.run_trial(request, tmp_path, deadline_s=90)
        assert "SIGKILL" in (machine.exit_reason() or "")
    assert caught.value.hint
    assert set(marked_processes(run_mark())) <= before


async def test_a_kernel_that_hangs_is_told_with_its_last_line(tmp_path: Path) -> None:
    await require_usable("qemu-tcg-paravirt")
    kernel = write_hanging_kernel(tmp_path / "hanging", "Calibrating delay loop...")
    # Drivers of a kernel without modules are taken to be built in; it will not come that far.
    request = request_for(tmp_path, kernel=str(kernel), boot_timeout_s=2.0)
    before = set(marked_processes(run_mark()))
    with pytest.raises(MachineError) as caught:
        async with registry.find("qemu-tcg-paravirt").boot(request):
            pytest.fail("a hanging kernel cannot have booted")
    assert "did not reach its agent within 2 s; its last line: Calibrating delay loop..." in caught.value.message
    assert "serial.log" in (caught.value.hint or "")
    assert set(marked_processes(run_mark())) <= before


async def test_a_kernel_that_panics_is_told_at_once(tmp_path: Path) -> None:
    await require_usable("qemu-tcg-emulated")
    kernel = write_panicking_kernel(tmp_path / "panicking")
    before = set(marked_processes(run_mark()))
    # Ten minutes: only noticing the panic itself can end this in time.
    request = request_for(tmp_path, kernel=str(kernel), boot_timeout_s=600.0)
    async with asyncio.timeout(60):
        with pytest.raises(MachineError) as caught:
            async with registry.find("qemu-tcg-emulated").boot(request):
                pytest.fail("a panicking kernel cannot have booted")
    assert "Kernel panic - not syncing: fabricated" in caught.value.message
    assert "Kernel panic" in caught.value.serial_tail
    assert set(marked_processes(run_mark())) <= before


@pytest.mark.parametrize("name", ["uml", "qemu-tcg-emulated"])
async def test_more_virtual_cpus_than_the_platform_has_are_refused(name: str, tmp_path: Path) -> None:
    await require_usable(name)
    request = MachineRequest(vcpu_cpus=((0,), (0,)), housekeeping_cpus=(HOUSEKEEPING_CPU,), folder=tmp_path)
    with pytest.raises(UsageError, match="has one virtual CPU, 2 were asked for"):
        async with registry.find(name).boot(request):
            pytest.fail("it must not boot")
