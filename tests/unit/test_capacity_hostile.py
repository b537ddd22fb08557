"""Processes and guests that say what no real one does: any user starts the former, whoever has a guest the latter."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters import monitor
from stealtime.capacity.fleet import read_fleet
from stealtime.capacity.guest import Guest
from stealtime.capacity.guests import agent_view, view
from stealtime.capacity.guests.agent_view import AgentView
from stealtime.capacity.guests.command_line import presentable, read_guest
from stealtime.capacity.guests.identity import read_identity
from stealtime.capacity.guests.own_kernel import read_view
from stealtime.capacity.guests.view import GuestViews, ManagementSocket
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent

QEMU = "qemu-system-x86_64"
STAT = "cpu0 1 0 0 9\nintr 1\nprocs_running {running}\npswpin {swapped}\n"


@pytest.mark.parametrize(
    ("arguments", "memory_bytes"),
    [
        (["-device", '{"a":' * 20_000 + "1" + "}" * 20_000], 128 << 20),
        (["-device", '{"name": ["x"], "chardev": 3}'], 128 << 20),
        (["-m", "9" * 6000], None),
        (["-m", "9" * 30 + "T"], None),
        (["-m", "\uff12G"], None),
    ],
    ids=["nested", "odd port", "long size", "large size", "other digits"],
)
def test_any_command_line_is_read(arguments: list[str], memory_bytes: int | None) -> None:
    guest = read_guest(7, 0, [QEMU, *arguments])
    assert guest is not None
    assert (guest.name, guest.memory_bytes) == ("qemu-7", memory_bytes)


def test_any_name_can_be_shown() -> None:
    assert presentable("\x1b[31mred\nline") == "\\x1b[31mred\\nline"
    assert len(presentable("x" * 100_000)) == 100
    assert presentable("Gäste, 1") == "Gäste, 1"
    assert len(read_identity([QEMU, "-name", f"guest={'x' * 100_000}"]).name) == 100


def test_guests_are_told_apart_though_one_is_called_as_another_would_be(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    for pid, name in ((10, "web"), (20, "web-30"), (30, "web")):
        proc.add_process(pid, [QEMU, "-name", name], [FabricatedThread("CPU 0/TCG")])
    with Collector(proc.root) as collector:
        names = [one.name for one in collector.guests().values()]
    assert len(set(names)) == len(names) == 3


@pytest.mark.parametrize(("running", "swapped"), [(10**30, 0), (3, 10**400)], ids=["threads", "pages"])
def test_a_count_that_no_kernel_has_is_no_view(running: int, swapped: int) -> None:
    with pytest.raises(ValueError, match="no kernel has"):
        read_view(STAT.format(running=running, swapped=swapped).encode())


class Endless:
    """A guest agent whose file never ends, or that answers something else."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        if self.answer is not None:
            return self.answer
        return {"buf-b64": "eHh4", "eof": False} if command == "guest-file-read" else 1

    def close(self) -> None: ...


def test_a_file_of_a_guest_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_view, "_FILE_PATIENCE_S", 0.01)
    with pytest.raises(TimeoutError, match="has no end"):
        AgentView(Endless()).view()


@pytest.mark.parametrize("answer", [[], {}, "x", [[]], {"buf-b64": 3, "eof": 1}])
def test_whatever_an_agent_answers_the_collector_goes_on(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "AgentView", lambda _: AgentView(Endless(answer)))
    ask = GuestViews({}).of(Guest("web", "qemu", 7, 1, agent=Path("/nowhere")))
    told = ask()
    assert isinstance(told, Absent)
    assert "did not answer" in told.absent


@contextmanager
def console(path: Path, most: int) -> Iterator[None]:
    """Answers a request with up to so many pieces, each of which says that more come."""
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.bind(str(path))

    def answer() -> None:
        _, theirs = ours.recvfrom(1024)
        for _ in range(most):
            try:
                ours.sendto(struct.pack("=iII512s", 0, 1, 512, b"x" * 512), theirs)
            except OSError:
                return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        ours.close()


def test_a_management_socket_that_never_ends_is_given_up(tmp_path: Path) -> None:
    source = ManagementSocket(tmp_path / "mconsole")
    with console(tmp_path / "mconsole", 10_000):
        with pytest.raises(TimeoutError, match="has no end"):
            source.view()
        source.close()


@pytest.mark.parametrize("answer", [[], {}, {"actual": "many"}, "x"])
async def test_whatever_a_monitor_answers_is_no_balloon(answer: Any, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = {
            "QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []}
        }
        writer.write(json.dumps(greeting).encode() + b"\n")
        while line := await reader.read(4096):
            asked = json.loads(line)
            told = {} if asked["execute"] == "qmp_capabilities" else answer
            writer.write(json.dumps({"return": told, "id": asked.get("id")}).encode() + b"\n")
        writer.close()

    path = tmp_path / "qmp"
    async with await asyncio.start_unix_server(serve, str(path)):
        look = await monitor.look(Guest("web", "qemu", 7, 1, monitor=path), tmp_path)
    assert isinstance(look.balloon_bytes, Absent)
    assert "none of QEMU's" in look.balloon_bytes.absent


def test_a_file_that_never_ends_is_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.capacity.fleet._MOST_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="over 1 MiB"):
        read_fleet([Path("/dev/zero")])
