"""Neighbours on real machines: they come up beside the machine under test, work as told, and leave nothing behind."""

import asyncio
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from machines import CPUS, HOUSEKEEPING_CPU, MEASURED_CPU, marked_processes, needs_root, require_usable, until
from truth import some_of

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.cgroup import OUR_FOLDER, find_hierarchy
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.share import Share
from stealtime.lab.scenarios.model import NeighbourSpec, Scenario
from stealtime.lab.scenarios.neighbour_load import Loaded
from stealtime.lab.scenarios.neighbour_work import Work
from stealtime.lab.scenarios.neighbours import NeighbourResult, Neighbours, neighbours
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.scenarios.placing import place
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import RunTrial, TickProbe

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.asyncio(loop_scope="session"), needs_root]

PHASE_NS = 100_000_000
UML = NeighbourSpec.model_validate(
    {"kind": "machine", "load": "cpu-load", "cpus": "measured", "on": "100ms", "off": "100ms"}
)
PROCESS = NeighbourSpec.model_validate({"kind": "process", "load": "memory-load", "cpus": "measured", "block": "1MiB"})


def placed(*specs: NeighbourSpec, share: Share | None = None) -> Placement:
    return place(Scenario(name="beside", neighbours=list(specs), share=share), tuple(CPUS), MEASURED_CPU)


def booted(placement: Placement, folder: Path, platform: str = "uml", boot_timeout_s: float = 60.0):  # type: ignore[no-untyped-def]
    under_test = MachineRequest(
        placement.vcpu_cpus, placement.housekeeping_cpus, folder, memory_bytes=128 << 20, boot_timeout_s=boot_timeout_s
    )
    return neighbours(placement, registry.find(platform), under_test)


def our_groups(mark: str) -> list[Path]:
    folder = find_hierarchy().root / OUR_FOLDER / mark
    return sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = set(marked_processes(run_mark()))
    yield
    assert set(marked_processes(run_mark())) <= before, "a neighbour's process outlived it"
    assert our_groups(run_mark()) == [], "a CPU group outlived its machine"


def work(trial: int) -> Work:
    """Give what the machine under test does, which neighbours with a load of their own need not know."""
    request = RunTrial(
        trial=trial, probe=TickProbe(iterations=10_000), cpus=[0], priority=80, duration_ns=1_000_000_000
    )
    return Work(request, uses_every_cpu=False, needs=("samples",), deadline_s=60.0)


def loaded(result: NeighbourResult) -> Loaded:
    assert isinstance(result.did, Loaded)
    return result.did


def rows(result: NeighbourResult) -> dict[str, list[int]]:
    with pa.OSFile(str(loaded(result).table)) as file:
        table = pa.ipc.open_stream(file).read_all()
    columns: dict[str, list[int]] = table.to_pydict()
    return columns


async def test_a_machine_is_measured_beside_a_guest_and_a_process(tmp_path: Path) -> None:
    await require_usable("uml")
    placement = placed(UML, PROCESS)
    request = MachineRequest(
        placement.vcpu_cpus, placement.housekeeping_cpus, tmp_path, emulator_cpus=placement.emulator_cpus
    )
    async with registry.find("uml").boot(request) as machine, booted(placement, tmp_path) as beside:
        await beside.start(work(1), tmp_path / "tables")
        outcome = (await machine.connection.run_trial(work(1).request, tmp_path, deadline_s=60)).outcome
        guest, process = await beside.stop(is_whole=True)
        assert beside.failure() is None
        assert beside.findings == (), "in a guest the measuring threads are no real-time threads of the host"
    assert outcome.counters["recorded"] > 100
    assert [(each.name, each.kind, each.platform) for each in (guest, process)] == [
        ("neighbour 1", "machine", "uml"),
        ("neighbour 2", "process", "native"),
    ]
    assert (loaded(guest).outcome.unit, loaded(process).outcome.unit) == ("loops", "bytes")
    for each in (guest, process):
        table = rows(each)
        assert loaded(each).outcome.work == sum(table["work"]) > 0
        assert each.before.host_monotonic_raw_ns < each.after.host_monotonic_raw_ns
        assert each.before.error_ns > 0
        assert any(set(thread.cpus) == {MEASURED_CPU} for thread in each.threads), each.threads
        # User-Mode Linux and processes read the host's counter: the rows lie between the two alignments.
        assert each.before.machine_tsc < table["start"][0]
        assert table["start"][-1] + table["duration"][-1] < each.after.machine_tsc
    starts = rows(guest)["start"]
    period_cycles = 2 * PHASE_NS * loaded(guest).outcome.tsc_hz / 1e9
    assert len(starts) >= 4
    assert all(later - start > 0.4 * period_cycles for start, later in itertools.pairwise(starts)), (
        "an alternating load must pause"
    )


async def test_several_trials_beside_the_same_neighbours(tmp_path: Path) -> None:
    async with booted(placed(PROCESS), tmp_path, "native") as beside:
        for trial in (1, 2):
            await beside.start(work(trial), tmp_path / f"trial-{trial}")
            await asyncio.sleep(0.1)
            [result] = await beside.stop(is_whole=True)
            assert loaded(result).outcome.work > 0
        assert [finding.code for finding in beside.findings] == ["neighbour_below_realtime"]
        with pytest.raises(StealtimeError, match=r"neighbour 1 \(a process\) gave no result: .* nothing to stop"):
            await beside.stop(is_whole=True)


@pytest.mark.parametrize("platform", some_of(["qemu-tcg-emulated", "qemu-tcg-paravirt"], "qemu-tcg-paravirt"))
async def test_a_guest_under_qemu_copies_a_block_that_needs_more_memory_than_was_asked_for(
    platform: str, tmp_path: Path
) -> None:
    await require_usable(platform)
    spec = NeighbourSpec.model_validate({"kind": "machine", "load": "memory-load", "cpus": "all", "block": "40MiB"})
    async with booted(placed(spec), tmp_path, platform) as beside:
        await beside.start(work(1), tmp_path / "tables")
        await asyncio.sleep(0.3)
        [result] = await beside.stop(is_whole=True)
        assert (result.platform, result.kind) == (platform, "machine")
        assert loaded(result).outcome.work == sum(rows(result)["work"]) > 0
        # Every thread of it, the translator's and the emulator's, may run on every CPU.
        assert {thread.cpus for thread in result.threads} == {tuple(CPUS)}


async def test_a_neighbour_with_a_quota_says_what_was_held_back(tmp_path: Path) -> None:
    # So little that also a host full of other work would give it more.
    spec = NeighbourSpec(kind="process", load="cpu-load", cpus="measured", share=Share(quota_percent=5))
    async with booted(placed(spec), tmp_path) as beside:
        assert [group.name for group in our_groups(run_mark())] == ["neighbour-1"]
        await beside.start(work(1), tmp_path / "tables")
        await asyncio.sleep(0.5)
        [result] = await beside.stop(is_whole=True)
    assert result.throttling is not None
    for reading in (result.throttling.periods, result.throttling.throttled_periods, result.throttling.throttled_ns):
        assert isinstance(reading, Value), result.throttling
        assert isinstance(reading.value, int), result.throttling
        assert reading.value > 0, result.throttling


@pytest.mark.parametrize(("spec", "words"), [(UML, "neighbour 1 (uml)"), (PROCESS, "neighbour 1 (a process)")])
async def test_a_neighbour_that_is_killed_is_told(spec: NeighbourSpec, words: str, tmp_path: Path) -> None:
    await require_usable("uml")
    async with booted(placed(spec), tmp_path) as beside:
        await beside.start(work(1), tmp_path / "tables")
        os.kill(beside.threads()[0].tid, signal.SIGKILL)
        assert await until(lambda: beside.failure() is not None)
        assert f"{words} died: " in str(beside.failure())
        with pytest.raises(StealtimeError, match=rf"{re.escape(words)} gave no result: .*SIGKILL"):
            await beside.stop(is_whole=True)


async def test_a_neighbour_that_does_not_boot_is_named_and_the_others_end(tmp_path: Path) -> None:
    await require_usable("uml")
    with pytest.raises(StealtimeError, match=r"neighbour 1 did not boot beside uml: .*within 0.05 s") as caught:
        async with booted(placed(UML, PROCESS), tmp_path, boot_timeout_s=0.05):
            pytest.fail("it cannot have booted within 0.05 s")
    assert caught.value.hint


async def test_no_neighbours_are_no_work(tmp_path: Path) -> None:
    async with booted(placed(), tmp_path) as beside:
        assert isinstance(beside, Neighbours)
        await beside.start(work(1), tmp_path / "tables")
        assert (await beside.stop(is_whole=True), beside.failure(), beside.threads()) == ([], None, [])


BOOT_AND_WAIT = """
import asyncio, sys
from pathlib import Path
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import run_mark
from stealtime.lab.platforms.share import Share
from stealtime.lab.scenarios.model import NeighbourSpec, Scenario
from stealtime.lab.scenarios.neighbour_work import Work
from stealtime.lab.scenarios.neighbours import neighbours
from stealtime.lab.scenarios.placing import place
from stealtime.wire.message import RunTrial, TickProbe

async def main():
    measured, housekeeping, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    half = Share(quota_percent=50, weight=100)
    specs = [NeighbourSpec(kind=kind, load="cpu-load", cpus="measured", share=half) for kind in ("machine", "process")]
    scenario = Scenario(name="beside", neighbours=specs, share=half)
    placement = place(scenario, (housekeeping, measured), measured)
    uml = registry.find("uml")
    request = MachineRequest(placement.vcpu_cpus, placement.housekeeping_cpus, folder, share=placement.share)
    async with uml.boot(request), neighbours(placement, uml, request) as beside:
        request = RunTrial(trial=1, probe=TickProbe(iterations=10), cpus=[0], priority=0, duration_ns=1_000_000)
        await beside.start(Work(request, False, (), 60.0), folder / "tables")
        print(run_mark(), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""

NEXT_START = "from stealtime.lab.platforms.leftovers import clear_leftovers; print(*clear_leftovers(), sep='\\n')"


async def test_killing_the_control_plane_leaves_nothing_after_the_next_start(tmp_path: Path) -> None:
    await require_usable("uml")
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    argv = [sys.executable, "-c", BOOT_AND_WAIT, str(MEASURED_CPU), str(HOUSEKEEPING_CPU), str(tmp_path)]
    control = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    assert control.stdout is not None
    mark = (await asyncio.wait_for(control.stdout.readline(), 120)).decode().strip()
    groups, processes = [group.name for group in our_groups(mark)], marked_processes(mark)
    control.send_signal(signal.SIGKILL)
    await control.wait()
    assert groups == ["machine", "neighbour-1", "neighbour-2"]
    assert processes
    assert await until(lambda: not marked_processes(mark)), marked_processes(mark)
    following = await asyncio.create_subprocess_exec(sys.executable, "-c", NEXT_START, stdout=subprocess.PIPE)
    told, _ = await following.communicate()
    assert f"{OUR_FOLDER}/{mark}" in told.decode()
    assert our_groups(mark) == []
