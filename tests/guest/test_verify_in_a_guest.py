"""`sched verify` of a program that runs in somebody's guest: rt-app of Debian, reached over ssh."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from guest_with_rt_app import Reached, booted_with_rt_app
from machines import needs_root

pytestmark = [pytest.mark.guest, pytest.mark.truth, needs_root]

STEALTIME = (sys.executable, "-c", "from stealtime.start import main; main()")
PERIODS_US = (50_000, 100_000, 200_000, 500_000)
"""Under TCG a job of rt-app takes some milliseconds, whatever it is to run for."""
CPU = 1
MOST_URGENT = 40
"""Below the threads of interrupts (50), without which nobody reaches the guest."""


def file_of(run_us: int) -> dict[str, Any]:
    """What rt-app is to do: a task for each period; all run as long, each counted in loops of 100 ns."""
    tasks = {
        f"t{period_us}": {
            "policy": "SCHED_FIFO",
            "priority": MOST_URGENT - place,
            "cpus": [CPU],
            "loop": -1,
            "run": run_us,
            "timer": {"ref": "unique", "period": period_us},
        }
        for place, period_us in enumerate(PERIODS_US)
    }
    whole = {"duration": -1, "calibration": 100, "default_policy": "SCHED_OTHER", "lock_pages": False, "ftrace": False}
    return {"global": {**whole, "pi_enabled": False, "gnuplot": False}, "tasks": tasks}


async def verified(guest: Reached) -> tuple[int, dict[str, Any]]:
    argv = [*STEALTIME, "sched", "verify", "--machine", guest.machine, "--for", "10s", "--json", str(guest.process)]
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={**os.environ, "HOME": str(guest.home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, error = await asyncio.wait_for(process.communicate(), 120)
    assert said, error.decode()
    assert process.returncode is not None
    return process.returncode, json.loads(said)


async def test_a_running_rt_app_in_a_guest_is_judged(tmp_path: Path) -> None:
    async with booted_with_rt_app(tmp_path, file_of(run_us=100)) as guest:
        code, told = await verified(guest)
    found = {one["name"]: one for one in told["extracted"]["tasks"]}
    assert {name: found[name]["arrival"]["period_ns"] for name in file_of(1)["tasks"]} == {
        f"t{period_us}": 1_000 * period_us for period_us in PERIODS_US
    }
    assert {(one["policy"], tuple(one["cpus"])) for one in found.values()} == {("SCHED_FIFO", (CPU,))}
    assert (code, told["verdict"]) == (0, "schedulable"), told["summary"]
    assert told["cost_factor"] > 1
    assert told["first"] in found, "what would break it first is one of its tasks"
    assert "over ssh" in told["overheads"] or "not measured" in told["overheads"], told["overheads"]
