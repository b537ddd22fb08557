"""What tests on real machines share: how one is asked for, and what may be left of it."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import RUN_MARK, run_mark

NAMES = [platform.name for platform in registry.all_platforms()]
CPUS = sorted(os.sched_getaffinity(0))
MEASURED_CPU, HOUSEKEEPING_CPU = CPUS[-1], CPUS[0]
PRIORITY = 80

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may use SCHED_FIFO and change kernel settings")


def request_for(folder: Path, kernel: str = "rt", boot_timeout_s: float = 60.0) -> MachineRequest:
    return MachineRequest(
        vcpu_cpus=((MEASURED_CPU,),),
        housekeeping_cpus=(HOUSEKEEPING_CPU,),
        folder=folder,
        kernel=kernel,
        boot_timeout_s=boot_timeout_s,
    )


def marked_processes(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def mark_of_nobody() -> str:
    """Give the mark of a control plane that has ended; process ids end at 2^22 (``PID_MAX_LIMIT``)."""
    namespace, _, _ = run_mark().partition(":")
    return f"{namespace}:4194305:1"


def temporary_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"stealtime-{run_mark()}-*"))


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def require_usable(name: str) -> None:
    availability = await registry.find(name).check()
    if not availability.usable:
        pytest.skip(f"{name} is not usable here: {availability.reason}")
