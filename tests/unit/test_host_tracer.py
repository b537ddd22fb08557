"""Recording a kernel over the channel, and a host that refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_connection import GOLDEN, FarEnd, connected

from stealtime.lab.tracing.host import HostTracer
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import TraceRequest

pytestmark = pytest.mark.asyncio

STARTED = {"type": "tracing_started", "trial": 7, "groups": {"sched": {"value": True}, "kvm": {"absent": "no KVM"}}}
REFUSED = {"type": "failed", "trial": 7, "error": "tracefs cannot be mounted", "hint": "run as root"}


def done() -> dict[str, Any]:
    message: dict[str, Any] = json.loads((GOLDEN / "tracing_done.json").read_text())
    return message | {"trial": 7}


async def test_a_recording_is_started_and_its_table_spooled(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    async def script(far: FarEnd) -> None:
        asked.append(await far.take())
        far.send(STARTED)
        asked.append(await far.take())
        far.send_table("trace", b"rows")
        far.send(done())

    async with connected(script) as connection:
        tracer = HostTracer(connection)
        assert await tracer.start(7, TraceRequest(cpus=[1], user_mode_linux=[40]))
        result = await tracer.stop(7, tmp_path)
    assert [message["type"] for message in asked] == ["start_tracing", "stop_tracing"]
    assert asked[0]["tracing"]["user_mode_linux"] == [40]
    assert tracer.groups["sched"] == Value(value=True)
    assert tracer.absent is None
    assert result is not None
    assert result.trace.read_bytes() == b"rows"
    assert result.outcome.clock == "x86-tsc"


async def test_a_host_that_refuses_is_told_of_once_and_not_asked_again(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send(REFUSED)

    async with connected(script) as connection:
        tracer = HostTracer(connection)
        assert not await tracer.start(7, TraceRequest())
        # A second question would have no answer, and end in an error.
        assert not await tracer.start(8, TraceRequest())
        assert await tracer.stop(8, tmp_path) is None
    assert tracer.absent is not None
    assert tracer.absent.code == "host_not_traced"
    assert "tracefs cannot be mounted" in tracer.absent.text
    assert tracer.absent.hint == "run as root"


async def test_a_recording_that_broke_off_gives_no_table_and_says_why(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send(STARTED)
        await far.take()
        far.send(REFUSED | {"error": "no space left"})

    async with connected(script) as connection:
        tracer = HostTracer(connection)
        assert await tracer.start(7, TraceRequest())
        assert await tracer.stop(7, tmp_path) is None
    assert tracer.absent is not None
    assert "no space left" in tracer.absent.text
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_recording_without_its_table_breaks_the_protocol(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send(done())

    async with connected(script) as connection:
        with pytest.raises(StealtimeError, match="without its table"):
            await connection.stop_tracing(7, tmp_path)
