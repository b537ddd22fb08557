"""The connection against a script at the other end of a socket pair: nothing hangs, everything is a sentence."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.connection import AgentConnection
from stealtime.wire.frame import FrameDecoder, FrameKind, encode_frame
from stealtime.wire.incoming import Listener
from stealtime.wire.load import CpuLoad, LoadRequest
from stealtime.wire.message import PROTOCOL_VERSION, Progress, RunTrial, TickProbe
from stealtime.wire.spool import BULK_ALIGNMENT_BYTES

GOLDEN = Path(__file__).parents[1] / "golden" / "frames"
REQUEST = RunTrial(trial=7, probe=TickProbe(iterations=1000), cpus=[1], priority=80, duration_ns=10**9)
HELLO = {"type": "hello", "protocol": PROTOCOL_VERSION, "agent_version": "0.1.0", "facts": {}}


class FarEnd:
    """The agent's side, as a script."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._decoder = FrameDecoder()
        self._messages: list[dict[str, Any]] = []

    async def take(self) -> dict[str, Any]:
        while not self._messages:
            data = await self.reader.read(4096)
            assert data, "the control plane closed the channel"
            self._messages += [json.loads(frame.payload) for frame in self._decoder.feed(data)]
        return self._messages.pop(0)

    def send(self, message: dict[str, Any]) -> None:
        self.writer.write(encode_frame(FrameKind.MESSAGE, json.dumps(message).encode()))

    def send_table(self, stream: str, content: bytes, announced: int | None = None, *, frames: bool = True) -> None:
        self.send({"type": "stream_begin", "trial": 7, "stream": stream, "is_part": False})
        if frames:
            for start in range(0, len(content), 1000):
                self.writer.write(encode_frame(FrameKind.ARROW, content[start : start + 1000]))
        length = len(content) if announced is None else announced
        self.send({"type": "stream_end", "trial": 7, "stream": stream, "bytes": length})

    def send_done(self) -> None:
        done = json.loads((GOLDEN / "trial_done.json").read_text())
        self.send(done | {"trial": 7})


async def nothing_known() -> str | None:
    return None


@asynccontextmanager
async def connected(
    script: Callable[[FarEnd], Awaitable[None]],
    *,
    bulk: BinaryIO | None = None,
    describe_end: Callable[[], Awaitable[str | None]] = nothing_known,
) -> AsyncIterator[AgentConnection]:
    ours, theirs = socket.socketpair()
    far = FarEnd(*await asyncio.open_connection(sock=theirs))
    task = asyncio.ensure_future(script(far))
    reader, writer = await asyncio.open_connection(sock=ours)
    connection = AgentConnection(reader, writer, peer="test", bulk=bulk, describe_end=describe_end)
    try:
        yield connection
    finally:
        connection.abandon()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        far.writer.close()


async def test_the_agent_speaks_first_and_is_answered() -> None:
    answers: list[dict[str, Any]] = []

    async def script(far: FarEnd) -> None:
        far.send(HELLO)
        answers.append(await far.take())

    async with connected(script) as connection:
        hello = await connection.hello()
        await asyncio.sleep(0)
        assert hello.protocol == PROTOCOL_VERSION
        for _ in range(100):
            if answers:
                break
            await asyncio.sleep(0)
    assert answers[0]["type"] == "hello"
    assert answers[0]["protocol"] == PROTOCOL_VERSION


async def test_another_protocol_names_both_versions_and_what_to_do() -> None:
    async def script(far: FarEnd) -> None:
        far.send(HELLO | {"protocol": PROTOCOL_VERSION + 1, "agent_version": "9.9"})

    async with connected(script) as connection:
        with pytest.raises(StealtimeError) as caught:
            await connection.hello()
    assert f"protocol {PROTOCOL_VERSION + 1}" in caught.value.message
    assert f"protocol {PROTOCOL_VERSION}" in caught.value.message
    assert "9.9" in caught.value.message
    assert "make setup" in (caught.value.hint or "")


async def test_the_exchange_with_the_shortest_round_trip_gives_the_alignment() -> None:
    async def script(far: FarEnd) -> None:
        while True:
            asked = await far.take()
            reading = {"tsc": 10 + asked["id"], "monotonic_raw_ns": 5, "monotonic_ns": 6, "bracket_tsc": 3}
            far.send({"type": "clock_reading", "id": asked["id"], "reading": reading})

    async with connected(script) as connection:
        alignment = await connection.exchange_clocks(count=5)
    assert alignment.exchanges == 5
    assert alignment.machine_tsc in range(11, 16)
    assert alignment.machine_minus_host_ns == 5 - alignment.host_monotonic_raw_ns
    assert 0 < alignment.error_ns < 10**9


async def test_a_trial_is_spooled_into_files_as_it_comes(tmp_path: Path) -> None:
    samples, events = bytes(range(256)) * 20, b"events"
    seen: list[Progress] = []

    async def script(far: FarEnd) -> None:
        assert (await far.take())["type"] == "run_trial"
        far.send({"type": "progress", "trial": 7, "elapsed_ns": 5, "samples": 3, "max_ns": 1.5})
        far.send_table("samples", samples)
        far.send_table("events", events)
        far.send_done()

    async with connected(script) as connection:
        result = await connection.run_trial(REQUEST, tmp_path, deadline_s=5, listener=Listener(on_progress=seen.append))
    assert result.samples.read_bytes() == samples
    assert result.events is not None
    assert result.events.read_bytes() == events
    assert result.outcome.trial == 7
    assert [progress.samples for progress in seen] == [3]


async def test_that_it_has_measured_is_told_once_and_before_a_table_is_written(tmp_path: Path) -> None:
    found: list[list[Path]] = []

    async def script(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "progress", "trial": 7, "elapsed_ns": 5, "samples": 3, "max_ns": 1.5})
        far.send_table("samples", b"samples")
        far.send_table("events", b"events")
        far.send_done()

    async def on_measured() -> None:
        found.append(sorted(tmp_path.iterdir()))  # noqa: ASYNC240 - a few names

    async with connected(script) as connection:
        await connection.run_trial(REQUEST, tmp_path, deadline_s=5, listener=Listener(on_measured=on_measured))
    assert found == [[]]


async def test_a_refused_trial_has_measured_nothing(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "failed", "trial": 7, "error": "no such CPU", "hint": None})

    async def on_measured() -> None:
        pytest.fail("it has not")

    async with connected(script) as connection:
        with pytest.raises(StealtimeError, match="no such CPU"):
            await connection.run_trial(REQUEST, tmp_path, deadline_s=5, listener=Listener(on_measured=on_measured))


async def test_tables_on_the_bulk_disk_are_copied_from_where_they_lie(tmp_path: Path) -> None:
    samples, events = b"s" * 5000, b"e" * 10
    disk = (tmp_path / "disk").open("w+b")
    disk.write(samples)
    disk.seek(2 * BULK_ALIGNMENT_BYTES)
    disk.write(events)
    disk.flush()

    async def script(far: FarEnd) -> None:
        await far.take()
        far.send_table("samples", samples, frames=False)
        far.send_table("events", events, frames=False)
        far.send_done()

    with disk:
        async with connected(script, bulk=disk) as connection:
            result = await connection.run_trial(REQUEST, tmp_path, deadline_s=5)
    assert result.samples.read_bytes() == samples
    assert result.events is not None
    assert result.events.read_bytes() == events


async def test_a_refused_trial_leaves_the_channel_whole(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "failed", "trial": 7, "error": "CPU 99 does not exist", "hint": "choose 0 or 1"})
        asked = await far.take()
        reading = {"tsc": 1, "monotonic_raw_ns": 1, "monotonic_ns": 1, "bracket_tsc": 1}
        far.send({"type": "clock_reading", "id": asked["id"], "reading": reading})

    async with connected(script) as connection:
        with pytest.raises(StealtimeError, match="CPU 99 does not exist") as caught:
            await connection.run_trial(REQUEST, tmp_path, deadline_s=5)
        assert caught.value.hint == "choose 0 or 1"
        assert (await connection.exchange_clocks(count=1)).exchanges == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def send_nothing(far: FarEnd) -> None:
    await far.take()
    await far.reader.read()


async def send_garbage(far: FarEnd) -> None:
    far.writer.write(b"Kernel panic - not syncing")


async def send_oversized(far: FarEnd) -> None:
    far.writer.write((1 << 30).to_bytes(4, "little") + b"\x02")


async def send_unknown_message(far: FarEnd) -> None:
    far.send({"type": "greetings"})


async def send_message_with_an_unknown_key(far: FarEnd) -> None:
    far.send({"type": "stream_end", "trial": 7, "stream": "samples", "bytes": 1, "colour": "blue"})


async def send_table_outside(far: FarEnd) -> None:
    far.writer.write(encode_frame(FrameKind.ARROW, b"abc"))


async def send_too_few_bytes(far: FarEnd) -> None:
    far.send_table("samples", b"abc", announced=4)


async def send_other_trial(far: FarEnd) -> None:
    far.send({"type": "stream_begin", "trial": 8, "stream": "samples", "is_part": False})


async def send_done_without_samples(far: FarEnd) -> None:
    far.send_done()


async def close_at_once(far: FarEnd) -> None:
    await far.take()
    far.writer.close()


async def close_inside_a_frame(far: FarEnd) -> None:
    far.writer.write(encode_frame(FrameKind.MESSAGE, b"{}" * 50)[:20])
    far.writer.close()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (send_nothing, "no answer within 0.05 s while running trial 7"),
        (send_garbage, "unknown kind"),
        (send_oversized, "over the limit"),
        (send_unknown_message, "not understood"),
        (send_message_with_an_unknown_key, "not understood: stream_end.colour"),
        (send_table_outside, "outside any table"),
        (send_too_few_bytes, "has 3 bytes, the agent sent 4"),
        (send_other_trial, "trial 8 instead of 7"),
        (send_done_without_samples, "without samples"),
        (close_at_once, "closed its channel while running trial 7"),
        (close_inside_a_frame, "closed its channel while running trial 7"),
    ],
)
async def test_whatever_the_agent_does_wrong_is_one_sentence_with_a_hint(
    script: Callable[[FarEnd], Awaitable[None]], said: str, tmp_path: Path
) -> None:
    async with connected(script) as connection:
        async with asyncio.timeout(5):
            with pytest.raises(StealtimeError) as caught:
                await connection.run_trial(REQUEST, tmp_path, deadline_s=0.05)
    assert said in caught.value.message
    assert caught.value.hint
    assert os.listdir(tmp_path) == []  # noqa: PTH208, "a failed trial must leave no table"


async def test_a_closed_channel_says_why_and_cannot_be_used_again(tmp_path: Path) -> None:
    async def why() -> str:
        return "QEMU was ended by SIGKILL"

    async with connected(close_at_once, describe_end=why) as connection:
        with pytest.raises(StealtimeError, match="QEMU was ended by SIGKILL"):
            await connection.run_trial(REQUEST, tmp_path, deadline_s=5)
        with pytest.raises(StealtimeError, match="cannot be asked any more"):
            await connection.exchange_clocks()


async def test_two_requests_at_once_are_refused(tmp_path: Path) -> None:
    async with connected(send_nothing) as connection:
        trial = asyncio.ensure_future(connection.run_trial(REQUEST, tmp_path, deadline_s=5))
        await asyncio.sleep(0)
        with pytest.raises(StealtimeError, match="cannot take a request while running trial 7"):
            await connection.exchange_clocks()
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)


async def test_a_cancelled_trial_returns_what_there_is(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        assert (await far.take())["type"] == "cancel_trial"
        far.send_table("samples", b"half")
        far.send_done()

    async with connected(script) as connection:
        trial = asyncio.ensure_future(connection.run_trial(REQUEST, tmp_path, deadline_s=5))
        await asyncio.sleep(0)
        await connection.cancel()
        assert (await trial).samples.read_bytes() == b"half"


async def test_a_slow_line_is_not_a_silent_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.wire.connection.STREAM_SILENCE_S", 0.6)
    table = encode_frame(FrameKind.ARROW, b"x" * 100)

    async def script(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "stream_begin", "trial": 7, "stream": "samples", "is_part": False})
        for start in range(0, len(table), 15):
            far.writer.write(table[start : start + 15])
            await asyncio.sleep(0.1)
        far.send({"type": "stream_end", "trial": 7, "stream": "samples", "bytes": 100})
        far.send_done()

    async def stop_halfway(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "stream_begin", "trial": 7, "stream": "samples", "is_part": False})
        far.writer.write(table[:50])
        await far.reader.read()

    async with connected(script) as connection:
        result = await connection.run_trial(REQUEST, tmp_path, deadline_s=5)
        assert result.samples.read_bytes() == b"x" * 100
    async with connected(stop_halfway) as connection:
        with pytest.raises(StealtimeError, match=r"no answer within 0\.6 s"):
            await connection.run_trial(REQUEST, tmp_path, deadline_s=5)


LOAD = LoadRequest(kind=CpuLoad(), cpus=[1], on_ns=5_000_000, off_ns=50_000_000)


async def test_a_load_is_started_and_what_it_did_is_spooled(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    async def script(far: FarEnd) -> None:
        asked.append(await far.take())
        far.send({"type": "load_started", "trial": 7, "thread_ids": [41, 42]})
        asked.append(await far.take())
        far.send_table("load", b"rows")
        far.send(json.loads((GOLDEN / "load_done.json").read_text()) | {"trial": 7})

    async with connected(script) as connection:
        started = await connection.start_load(7, LOAD)
        result = await connection.stop_load(7, tmp_path)
    assert [message["type"] for message in asked] == ["start_load", "stop_load"]
    assert asked[0]["load"]["on_ns"] == 5_000_000
    assert started.thread_ids == [41, 42]
    assert result.load == tmp_path / "load.arrows"
    assert result.load.read_bytes() == b"rows"
    assert result.outcome.unit in ("loops", "bytes")


async def test_a_refused_load_leaves_the_channel_whole(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send({"type": "failed", "trial": 7, "error": "CPU 9 is not there", "hint": "choose one of [0]"})
        await far.take()
        far.send({"type": "failed", "trial": 7, "error": "no load for trial 7 is on", "hint": None})

    async with connected(script) as connection:
        with pytest.raises(StealtimeError, match="starting the load of trial 7: CPU 9 is not there") as caught:
            await connection.start_load(7, LOAD)
        with pytest.raises(StealtimeError, match="stopping the load of trial 7: no load"):
            await connection.stop_load(7, tmp_path)
    assert caught.value.hint == "choose one of [0]"


async def test_a_load_that_lost_bytes_leaves_no_file(tmp_path: Path) -> None:
    async def script(far: FarEnd) -> None:
        await far.take()
        far.send_table("load", b"rows", announced=5)

    async with connected(script) as connection:
        with pytest.raises(StealtimeError, match="has 4 bytes, the agent sent 5"):
            await connection.stop_load(7, tmp_path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_load_without_its_table_and_another_trials_load_break_the_protocol(tmp_path: Path) -> None:
    done = json.loads((GOLDEN / "load_done.json").read_text())

    async def without_table(far: FarEnd) -> None:
        await far.take()
        far.send(done | {"trial": 7})

    async def of_another_trial(far: FarEnd) -> None:
        await far.take()
        far.send(done | {"trial": 8})

    async with connected(without_table) as connection:
        with pytest.raises(StealtimeError, match="ended the load of trial 7 without its table"):
            await connection.stop_load(7, tmp_path)
    async with connected(of_another_trial) as connection:
        with pytest.raises(StealtimeError, match="answered for trial 8 instead of 7"):
            await connection.stop_load(7, tmp_path)


async def test_shutdown_waits_for_the_agent_to_close_and_never_raises() -> None:
    heard: list[str] = []

    async def script(far: FarEnd) -> None:
        heard.append((await far.take())["type"])
        far.writer.close()

    async with connected(script) as connection:
        await connection.shutdown(within_s=5)
        await connection.shutdown(within_s=5)
    assert heard == ["shutdown"]
