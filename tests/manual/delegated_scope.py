"""Runs in the guest of ``delegated_scope.sh``: a share where systemd is the first process, and what is left of it.

Each line that it prints is a statement that was checked; it ends with ``PROVED`` or with a traceback.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.cgroup import CpuGroup, cpu_group
from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.lab.platforms.share import Share
from stealtime.vocabulary.readings import Value

TREE = Path("/sys/fs/cgroup")
BURN = [sys.executable, "-c", "while True: pass"]
HALF = Share(quota_percent=20, weight=50)


def main() -> None:
    """Do what the argument says; without one, prove all."""
    if sys.argv[1:] == ["live"]:
        asyncio.run(live(guarded=True))
    elif sys.argv[1:] == ["live", "unguarded"]:
        asyncio.run(live(guarded=False))
    elif sys.argv[1:] == ["clear"]:
        from stealtime.lab.platforms.leftovers import clear_leftovers

        print(*clear_leftovers(), sep="\n")
    else:
        prove()


def prove() -> None:
    """Check one statement after the other."""
    assert Path("/proc/1/comm").read_text().strip() == "systemd"
    before = handed_down()
    say(f"systemd is the first process; the root hands down {before!r}")
    asyncio.run(within())
    assert scopes() == []
    assert not (TREE / "stealtime").exists()
    # What the root hands down is systemd's affair: it adds cpu for the scope's weight, and may keep it.
    assert set(before.split()) <= set(handed_down().split())
    say(f"afterwards there is no scope and no folder of ours; systemd's root hands down {handed_down()!r}")
    for words in (["live"], ["live", "unguarded"]):
        killed(words)
    print("PROVED", flush=True)


async def within() -> None:
    """Hold a busy machine and a neighbour in groups of their own."""
    async with cpu_group("machine", HALF) as machine, cpu_group("neighbour-1", Share(weight=300)) as neighbour:
        assert (machine.path / "cpu.max").read_text() == "20000 100000\n"
        assert (machine.path.parent / "cpu.weight").read_text() == "50\n"
        assert (neighbour.path.parent / "cpu.weight").read_text() == "300\n"
        say(f"the machine is in {machine.path}, weight and quota are set")
        with burning(machine) as burner:
            await asyncio.to_thread(subprocess.run, ["systemctl", "daemon-reload"], check=True)
            await asyncio.sleep(3)
            throttled = machine.read_throttling().throttled_periods
            assert isinstance(throttled, Value)
            assert isinstance(throttled.value, int)
            assert throttled.value > 0
            assert (machine.path / "cpu.max").read_text() == "20000 100000\n"
            burner.kill()
        say(f"it was throttled in {throttled.value} periods, also after `systemctl daemon-reload`")


async def live(*, guarded: bool) -> None:
    """Be a control plane that will be killed."""
    async with cpu_group("machine", HALF) as machine:
        burning(machine, guarded=guarded)
        print(run_mark(), flush=True)
        await asyncio.sleep(600)


def burning(machine: CpuGroup, *, guarded: bool = True) -> "subprocess.Popen[bytes]":
    """Start what uses up the machine's quota."""
    environment = {**os.environ, RUN_MARK: run_mark()}
    if guarded:
        return subprocess.Popen([find_agent(), "guard", "--cgroup", machine.path, "--", *BURN], env=environment)
    process = subprocess.Popen(BURN, env=environment)
    (machine.path / "cgroup.procs").write_text(str(process.pid))
    return process


def killed(words: list[str]) -> None:
    """Kill a control plane with -9, and see that its scope goes: at once, or at the next start."""
    with subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True) as control:
        assert control.stdout is not None
        mark = control.stdout.readline().strip()
        assert len(scopes()) == 1
        assert mark in scopes()[0]
        control.send_signal(signal.SIGKILL)
    if "unguarded" in words:
        time.sleep(2)
        assert len(scopes()) == 1, "a process of the machine still lives in it"
        told = subprocess.run([sys.executable, __file__, "clear"], capture_output=True, text=True, check=True).stdout
        assert mark in told, told
    deadline = time.monotonic() + 20
    while scopes():
        assert time.monotonic() < deadline, scopes()
        time.sleep(0.1)
    say(f"after kill -9 ({' '.join(words)}) nothing is left")


def scopes() -> list[str]:
    """Give the names of our scopes in the tree."""
    walked = [name for _, names, _ in os.walk(TREE) for name in names]
    return [name for name in walked if name.startswith("stealtime-") and name.endswith(".scope")]


def handed_down() -> str:
    """Give the controllers that the root hands down."""
    return (TREE / "cgroup.subtree_control").read_text().strip()


def say(text: str) -> None:
    """Print a statement that holds."""
    print(f"- {text}", flush=True)


main()
