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

from stealtime.platforms.cgroup import cpu_group
from stealtime.platforms.leftovers import make_short_folder
from stealtime.platforms.share import Share

pytestmark = [pytest.mark.guest, needs_root]

IN_A_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
SEES_ALL = str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"
CLEAR = "from stealtime.platforms.leftovers import clear_leftovers; print(*clear_leftovers(), sep='\\n')"
LIVE = """
import asyncio, os, subprocess, sys
from stealtime.platforms.cgroup import cpu_group
from stealtime.platforms.leftovers import make_short_folder
from stealtime.platforms.process import RUN_MARK, run_mark
from stealtime.platforms.share import Share

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
async def contained() -> AsyncIterator[Contained]:
    process = await asyncio.create_subprocess_exec(*IN_A_NAMESPACE, sys.executable, "-c", LIVE, stdout=subprocess.PIPE)
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


async def test_a_run_in_another_pid_namespace_lives_until_it_ends() -> None:
    async with contained() as run:
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


async def test_a_run_in_a_namespace_clears_nothing_of_those_outside() -> None:
    folder = make_short_folder()
    try:
        async with cpu_group("machine", Share(weight=100)) as group:
            # With a /proc of its own, where our pid is nobody's, and with ours, where it is another's.
            for prefix in (IN_A_NAMESPACE, IN_A_NAMESPACE[:-1]):
                told = await clear(*prefix)
                assert str(folder) not in told, prefix
                assert folder.is_dir(), prefix
                assert group.path.is_dir(), prefix
    finally:
        folder.rmdir()
