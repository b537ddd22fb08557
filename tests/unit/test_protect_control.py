"""The control client against a scripted member on a real socket."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stealtime.protect.control import ControlClient, ControlError, MemberLeftError

STATUS = b'{"vm": "phone", "host": "a", "role": "active", "protected": true, "mode": "net", "epoch": 7, "later": 1}\n'


class ScriptedMember:
    """Answers each connection with the same bytes and keeps what it was asked."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                line = reader.readline()
                if not line:
                    continue
                self.asked.append(line)
                connection.sendall(self._answer)

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Callable[[bytes], tuple[ScriptedMember, ControlClient]]]:
    """Start a scripted member that gives this answer."""
    started: list[ScriptedMember] = []

    def start(answer: bytes) -> tuple[ScriptedMember, ControlClient]:
        path = tmp_path / f"control-{len(started)}.sock"
        started.append(ScriptedMember(path, answer))
        return started[-1], ControlClient(path)

    yield start
    for one in started:
        one.end()


Start = Callable[[bytes], tuple[ScriptedMember, ControlClient]]


def test_a_status_is_asked_in_one_line_and_what_is_unknown_is_passed_over(member: Start) -> None:
    scripted, client = member(STATUS)
    status = client.status()
    assert (status.vm, status.role, status.protected, status.epoch) == ("phone", "active", True, 7)
    assert scripted.asked == [b'{"command": "status"}\n']


def test_each_command_says_what_it_wants(member: Start) -> None:
    scripted, client = member(b"{}\n")
    client.failover()
    client.stop()
    client.detach()
    client.fault("after-copy", "kill", passes=3)
    assert scripted.asked == [
        b'{"command": "failover", "force": false}\n',
        b'{"command": "stop"}\n',
        b'{"command": "detach"}\n',
        b'{"command": "fault", "point": "after-copy", "action": "kill", "passes": 3, "only_protected": false}\n',
    ]


def test_a_refusal_keeps_its_words_and_its_hint(member: Start) -> None:
    _, client = member(b'{"error": "there is no standby", "hint": "wait for it"}\n')
    with pytest.raises(ControlError) as refused:
        client.failover()
    assert (refused.value.message, refused.value.hint) == ("there is no standby", "wait for it")


def test_a_stop_gives_what_came_of_it(member: Start) -> None:
    _, client = member(b'{"ended": "stopped as asked"}\n')
    assert client.stop() == "stopped as asked"
    _, client = member(b'{"left": "phone"}\n')
    assert client.stop() is None
    _, client = member(b'{"error": "it was not stopped: b has it", "hint": "stop it there"}\n')
    with pytest.raises(ControlError, match="it was not stopped"):
        client.stop()


@pytest.mark.parametrize("answer", [b"[]\n", b"what?\n", b"\xff\xfe\n", b"7\n"])
def test_an_answer_that_is_no_object_is_told(member: Start, answer: bytes) -> None:
    _, client = member(answer)
    with pytest.raises(ControlError, match="not a JSON object"):
        client.stop()


def test_an_answer_that_is_no_status_is_told_with_its_first_fault(member: Start) -> None:
    _, client = member(b'{"vm": "phone", "host": "a", "role": "king", "protected": true}\n')
    with pytest.raises(ControlError, match="gives no status: role"):
        client.status()


@pytest.mark.parametrize("answer", [b"", b'{"half": '])
def test_a_member_that_ends_before_it_answers_is_told(member: Start, answer: bytes) -> None:
    _, client = member(answer)
    with pytest.raises(MemberLeftError, match="ended before it answered 'failover'"):
        client.failover()
    # One that is told to leave may be gone before its answer is.
    assert client.stop() is None


def test_a_member_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="there is no member at"):
        ControlClient(tmp_path / "control.sock").status()


def test_a_member_that_stands_still_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(ControlError, match="has not answered 'status' within"):
            ControlClient(path).ask("status", within_s=0.05)
