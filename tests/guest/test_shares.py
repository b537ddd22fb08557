"""Shares and CPU sets on real machines: the kernel holds them to what was asked for."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from machines import CPUS, HOUSEKEEPING_CPU, MEASURED_CPU, mark_of_nobody, needs_root, request_for, require_usable

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.cgroup import OUR_FOLDER, cpu_group, find_hierarchy
from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import GuestProcess, guarded
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.throttling import throttling_between
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import RunTrial, TickProbe

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.asyncio(loop_scope="session"), needs_root]

SPIN_S = 0.6
SPIN = f"import time; end = time.monotonic() + {SPIN_S}\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


async def test_a_process_in_a_group_gets_no_more_than_its_quota(tmp_path: Path) -> None:
    async with cpu_group("spinner", Share(quota_percent=30)) as group:
        before = group.read_throttling()
        argv = guarded([sys.executable, "-c", SPIN], cpus=[MEASURED_CPU], cgroups=[group.path])
        with (tmp_path / "output").open("wb") as output:
            process = await GuestProcess.start(argv, name="python", log=tmp_path / "log", stdout=output)
        assert await process.wait(30)
        counted = throttling_between(before, group.read_throttling())
    spent_s = float((tmp_path / "output").read_text())
    # The quota of the first period and that of the last may both be used within the time.
    assert spent_s <= 0.3 * (SPIN_S + 0.2), "the process had more than its quota"
    assert isinstance(counted.throttled_ns, Value)
    assert isinstance(counted.throttled_ns.value, int)
    assert counted.throttled_ns.value > 0, counted
    assert not group.path.exists()


async def test_a_name_that_is_taken_is_told(tmp_path: Path) -> None:
    async with cpu_group("twin", Share(weight=100)) as group:
        with pytest.raises(CpuGroupError, match="twin cannot be made: File exists"):
            async with cpu_group("twin", Share(weight=100)):
                pytest.fail("two machines must not share a group by accident")
        assert group.path.exists(), "the group that was there first stays"


@pytest.mark.parametrize("name", ["native", "uml", "qemu-tcg-paravirt"])
async def test_a_machine_with_a_share_lives_in_its_group_and_measures(name: str, tmp_path: Path) -> None:
    await require_usable(name)
    request = MachineRequest(
        vcpu_cpus=((MEASURED_CPU,),),
        housekeeping_cpus=(HOUSEKEEPING_CPU,),
        folder=tmp_path,
        share=Share(quota_percent=60, weight=100),
    )
    async with registry.find(name).boot(request) as machine:
        assert machine.cpu_group is not None
        inside = {int(tid) for tid in (machine.cpu_group.path / "cgroup.procs").read_text().split()}
        assert {thread.tid for thread in machine.threads()} & inside, "the machine must be in its group"
        trial = RunTrial(
            trial=1,
            probe=TickProbe(iterations=10_000),
            cpus=list(machine.measured_cpus),
            priority=80,
            duration_ns=300_000_000,
        )
        # Natively this needs SCHED_FIFO in the group, which kernels with real-time groups refuse by default.
        outcome = (await machine.connection.run_trial(trial, tmp_path, deadline_s=60)).outcome
        assert (outcome.placement.policy, outcome.counters["recorded"] > 0) == ("SCHED_FIFO", True)
        folder = machine.cpu_group.path
    assert not folder.exists()


@pytest.mark.parametrize("name", ["uml", "qemu-tcg-paravirt"])
async def test_a_vcpu_roams_over_its_set_and_the_emulator_over_its_own(name: str, tmp_path: Path) -> None:
    await require_usable(name)
    if len(CPUS) < 2:
        pytest.skip("there is nothing to roam over")
    request = MachineRequest(
        vcpu_cpus=(tuple(CPUS),), housekeeping_cpus=(HOUSEKEEPING_CPU,), folder=tmp_path, emulator_cpus=(MEASURED_CPU,)
    )
    async with registry.find(name).boot(request) as machine:
        threads = machine.threads()
        for thread in threads:
            wanted = set(CPUS) if thread.role == "vcpu" else {MEASURED_CPU}
            assert os.sched_getaffinity(thread.tid) == wanted == set(thread.cpus), thread
        assert any(thread.role == "vcpu" for thread in threads)


async def test_natively_the_measuring_threads_may_use_the_whole_set(tmp_path: Path) -> None:
    request = MachineRequest(vcpu_cpus=(tuple(CPUS),), housekeeping_cpus=(HOUSEKEEPING_CPU,), folder=tmp_path)
    async with registry.find("native").boot(request) as machine:
        assert machine.measured_cpus == tuple(CPUS)
        assert machine.cpu_group is None


CLEAR = "from stealtime.lab.platforms.leftovers import clear_leftovers; print(*clear_leftovers(), sep='\\n')"


async def test_a_nested_group_of_a_dead_control_plane_goes_with_its_processes(tmp_path: Path) -> None:
    dead = find_hierarchy().root / OUR_FOLDER / mark_of_nobody()
    inner = dead / "machine" / "inner"
    inner.mkdir(parents=True)
    sleeper = await asyncio.create_subprocess_exec("sleep", "600")
    (inner / "cgroup.procs").write_text(str(sleeper.pid))
    clearing = await asyncio.create_subprocess_exec(sys.executable, "-c", CLEAR, stdout=subprocess.PIPE)
    told, _ = await clearing.communicate()
    assert str(dead) in told.decode()
    assert not dead.exists()
    assert await asyncio.wait_for(sleeper.wait(), 5) == -9


async def test_a_machine_without_a_share_is_in_no_group(tmp_path: Path) -> None:
    async with registry.find("native").boot(request_for(tmp_path)) as machine:
        assert machine.cpu_group is None
