"""A machine that comes up is waited for; one whose kernel says nothing is not, where that is asked."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.machine import await_agent
from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.process import GuestProcess
from stealtime.wire.message import AgentHello

HELLO_AFTER_S = 0.2
HELLO = AgentHello(protocol=1, agent_version="1", facts={})


class Booting:
    """An agent that says hello after some time."""

    async def hello(self, deadline_s: float) -> AgentHello:
        await asyncio.sleep(HELLO_AFTER_S)
        return HELLO


@pytest_asyncio.fixture
async def process(tmp_path: Path) -> AsyncIterator[GuestProcess]:
    argv = (sys.executable, "-c", "import time; time.sleep(60)")
    emulator = await GuestProcess.start(argv, name="emulator", log=tmp_path / "emulator.log")
    yield emulator
    await emulator.end(0.0)


async def awaited(process: GuestProcess, folder: Path, said: str, silence_timeout_s: float | None) -> AgentHello:
    console = folder / "serial.log"
    console.write_text(said)
    request = MachineRequest(((0,),), (0,), folder, boot_timeout_s=30.0, silence_timeout_s=silence_timeout_s)
    agent: Any = Booting()
    return await await_agent("qemu-kvm-paravirt", agent, process, request, (console, folder / "emulator.log"))


async def test_whose_kernel_says_nothing_is_given_up(process: GuestProcess, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="did not begin to boot within") as caught:
        await awaited(process, tmp_path, "", 0.01)
    assert caught.value.message.endswith("within 0.01 s; nothing on its console")
    assert "--kernel" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("said", "silence_timeout_s"), [("Linux version 6.1", 0.01), ("", 10.0), ("", None)],
    ids=["it has spoken", "it still may", "nobody asks"],
)  # fmt: skip
async def test_what_still_boots_is_waited_for(
    process: GuestProcess, tmp_path: Path, said: str, silence_timeout_s: float | None
) -> None:
    assert await awaited(process, tmp_path, said, silence_timeout_s) == HELLO
