"""Runs in several PID namespaces of one host: none takes another's for dead, and the dead are told from the living."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from machines import marked_processes, needs_root, until

from stealtime.lab.platforms.cgroup import cpu_group
from stealtime.lab.platforms.leftovers import make_short_folder
from stealtime.lab.platforms.share import Share
from stealtime.store.run import Trial, find_run
from stealtime.studies.latency.attribution.attribute import attribute_trial
from stealtime.studies.latency.attribution.not_attributed import NotAttributed
from stealtime.vocabulary.readings import Absent, Value

pytestmark = [pytest.mark.guest, needs_root]

IN_A_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
ANOTHER_TIME = ("unshare", "--time", "--boottime", "100000")
WITH_ANOTHER_TIME = (*ANOTHER_TIME, *IN_A_NAMESPACE[1:])
"""Where all processes seem to have started 100,000 s later."""
SEES_ALL = str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"
CLEAR = "from stealtime.lab.platforms.leftovers import clear_leftovers; print(*clear_leftovers(), sep='\\n')"
LIVE = """
import asyncio, os, subprocess
from stealtime.lab.platforms.cgroup import cpu_group
from stealtime.lab.platforms.leftovers import make_short_folder
from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.lab.platforms.share import Share

async def main():
    async with cpu_group("machine", Share(weight=100)) as group:
        child = subprocess.Popen(["sleep", "600"], env={**os.environ, RUN_MARK: run_mark()})
        print(run_mark(), make_short_folder(), group.path, sep="\\n", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@dataclass(frozen=True)
class Contained:
    """A control plane in a PID namespace, and what it has made."""

    process: asyncio.subprocess.Process
    mark: str
    folder: Path
    group: Path


@asynccontextmanager
async def contained(prefix: tuple[str, ...]) -> AsyncIterator[Contained]:
    process = await asyncio.create_subprocess_exec(*prefix, sys.executable, "-c", LIVE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        mark, folder, group = [
            (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip() for _ in range(3)
        ]
        yield Contained(process, mark, Path(folder), Path(group))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def clear(*prefix: str) -> str:
    clearing = await asyncio.create_subprocess_exec(*prefix, sys.executable, "-c", CLEAR, stdout=subprocess.PIPE)
    told, _ = await clearing.communicate()
    assert clearing.returncode == 0
    return told.decode()


# Alone: what starts beside it would be the first to clear what it has left, and to tell of it.
@pytest.mark.parametrize("prefix", [IN_A_NAMESPACE, WITH_ANOTHER_TIME], ids=["pid", "pid and time"])
async def test_a_run_in_other_namespaces_lives_until_it_ends(prefix: tuple[str, ...]) -> None:
    async with contained(prefix) as run:
        [sleeper] = marked_processes(run.mark)
        told = await clear()
        assert run.mark not in told
        assert run.folder.is_dir()
        assert run.group.is_dir()
        assert sleeper.is_running()
        # As the first process of its namespace, its end is that of all others in it.
        control = next(child for child in psutil.Process(run.process.pid).children() if child != sleeper)
        os.kill(control.pid, signal.SIGKILL)
        await run.process.wait()
        assert await until(lambda: not marked_processes(run.mark))
        if not SEES_ALL:
            pytest.skip("only the initial PID namespace sees that another one has ended")
        told = await clear()
        assert f"folder {run.folder}" in told
        assert str(run.group.parent) in told
        assert not run.folder.exists()
        assert not run.group.parent.exists()


@pytest.mark.beside
async def test_a_run_in_a_namespace_clears_nothing_of_those_outside() -> None:
    folder = make_short_folder()
    try:
        async with cpu_group("machine", Share(weight=100)) as group:
            # With a /proc of its own, where our pid is nobody's, and with ours, where it is another's; and in no PID
            # namespace of its own, but where we seem to have started at another time.
            for prefix in (IN_A_NAMESPACE, IN_A_NAMESPACE[:-1], (*ANOTHER_TIME, "--fork")):
                told = await clear(*prefix)
                assert str(folder) not in told, prefix
                assert folder.is_dir(), prefix
                assert group.path.is_dir(), prefix
    finally:
        folder.rmdir()


CAMPAIGN = """
name = "namespaces"
platforms = ["native", "uml", "qemu-tcg-paravirt"]
scenarios = ["alone"]
repetitions = 1
tracing = "on"
injection = { every = "50ms", steal = "5ms" }
[[probes]]
probe = "tick"
duration = "1500ms"
"""
INJECTED_NS = 5e6
UNKNOWN = "the trace numbers threads as the initial PID namespace does"


async def measured(folder: Path, *prefix: str) -> dict[str, Trial]:
    """Measure in a PID namespace; give the trials by platform."""
    campaign = folder / "namespaces.toml"
    campaign.write_text(CAMPAIGN)
    stealtime = str(Path(sys.executable).parent / "stealtime")
    argv = [*prefix, stealtime, "run", str(campaign), "--lift-rt-throttling", "--runs", str(folder / "runs")]
    ended = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = await asyncio.wait_for(ended.communicate(), 170)
    run = find_run("last", folder / "runs")
    assert run.measured, said.decode()
    return {trial.record.cell.platform: trial for trial in run.measured}


@pytest.mark.truth
@pytest.mark.beside
async def test_with_a_proc_of_its_own_a_namespace_does_not_tell_whose_fault_it_is(tmp_path: Path) -> None:
    trials = await measured(tmp_path, *IN_A_NAMESPACE)
    assert "native" in trials
    for platform in {"native", "uml"} & trials.keys():
        with pytest.raises(NotAttributed, match=UNKNOWN) as caught:
            attribute_trial(trials.pop(platform))
        assert "--pid=host" in str(caught.value.hint)
    for trial in trials.values():
        # The guest's own kernel numbers its threads as they do.
        found = attribute_trial(trial)
        assert any(UNKNOWN in step for step in found.trace.steps), found.trace.steps
        assert not any(share.cause.layer == "host" for share in found.shares)
        assert isinstance(found.views.traced_off_cpu, Absent)
        assert "agrees" not in found.views.agreement


@pytest.mark.truth
@pytest.mark.beside
async def test_with_the_hosts_proc_ids_are_translated(tmp_path: Path) -> None:
    if not SEES_ALL:
        pytest.skip("this /proc is not that of the initial PID namespace")
    trials = await measured(tmp_path, *IN_A_NAMESPACE[:-1])
    native = attribute_trial(trials["native"], threshold_ns=1e6)
    by_thief = [share for share in native.shares if share.cause.name == "injection"]
    assert sum(share.lost_ns for share in by_thief) > 20 * INJECTED_NS, native.shares
    for platform in trials.keys() - {"native"}:
        found = attribute_trial(trials[platform])
        assert not any(UNKNOWN in step for step in found.trace.steps)
        assert isinstance(found.views.traced_off_cpu, Value), found.views
        assert isinstance(found.views.traced_off_cpu.value, int), found.views
        assert found.views.traced_off_cpu.value > 0
        assert any(share.cause.layer == "host" for share in found.shares), found.shares
