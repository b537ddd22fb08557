"""QMP against a scripted QEMU at the other end of a socket pair."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.qemu_monitor import QemuMonitor

GREETING = {"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""}, "capabilities": []}}
ANSWERS: dict[str, Any] = {
    "qmp_capabilities": {},
    "query-cpus-fast": [{"cpu-index": 1, "thread-id": 4712}, {"cpu-index": 0, "thread-id": 4711}],
    "query-kvm": {"enabled": False, "present": True},
    "query-version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian 1:7.2"},
    "device-list-properties": [{"name": "hv-time", "type": "bool"}, {"name": "kvm", "type": "bool"}],
}


@asynccontextmanager
async def scripted_qemu(answers: dict[str, Any]) -> AsyncIterator[tuple[socket.socket, list[str]]]:
    ours, theirs = socket.socketpair()
    asked: list[str] = []

    async def serve() -> None:
        reader, writer = await asyncio.open_connection(sock=theirs)
        writer.write(json.dumps(GREETING).encode() + b"\n")
        # The client ends no message with a line feed; each comes whole, since the next waits for its answer.
        while data := await reader.read(65536):
            command = json.loads(data)
            asked.append(command["execute"])
            if command["execute"] == "die":
                break
            answer: dict[str, Any] = {"return": answers.get(command["execute"])}
            if command["execute"] not in answers:
                answer = {"error": {"class": "GenericError", "desc": "no such thing"}}
            writer.write(json.dumps(answer | ({"id": command["id"]} if "id" in command else {})).encode() + b"\n")
        writer.close()

    task = asyncio.ensure_future(serve())
    try:
        yield ours, asked
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ours.close()


async def test_threads_accelerator_version_and_properties_are_read() -> None:
    monitor = QemuMonitor("test")
    async with scripted_qemu(ANSWERS) as (ours, asked):
        await monitor.connect(ours)
        assert await monitor.vcpu_threads() == [4711, 4712], "in the order of the virtual CPUs"
        assert await monitor.accelerator() == "tcg"
        assert await monitor.version() == "7.2.22 (Debian 1:7.2)"
        assert await monitor.cpu_properties() == {"hv-time", "kvm"}
        await monitor.close()
    assert asked[0] == "qmp_capabilities"


async def test_a_refusal_and_an_end_are_sentences() -> None:
    monitor = QemuMonitor("test")
    async with scripted_qemu(ANSWERS) as (ours, _):
        await monitor.connect(ours)
        with pytest.raises(MachineError, match="QEMU of test failed at cont: no such thing"):
            await monitor.execute("cont")
        with pytest.raises(MachineError, match="QEMU of test failed at die"):
            await monitor.execute("die")
        await monitor.close()


async def test_a_qemu_that_ends_before_its_greeting_is_a_sentence() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    monitor = QemuMonitor("test")
    with ours, pytest.raises(MachineError, match="gave no QMP greeting"):
        await monitor.connect(ours)
    await monitor.close()
