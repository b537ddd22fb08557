"""Many members are asked at the same time: one that stands still hides no other."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from command import Command

from stealtime.protect import all_hosts, members
from stealtime.protect.leaving import hand_over_all
from stealtime.protect.state import STATE_VARIABLE, State

MEMBERS = 12
SHORT_S = 0.2
LONG_S = 30.0


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> State:
    # A short path: sockets are made in it.
    made = State(tmp_path_factory.mktemp("s"))
    monkeypatch.setenv(STATE_VARIABLE, str(made.path))
    return made


@contextmanager
def listening(state: State, vm: str) -> Iterator[socket.socket]:
    folder = state.host("a").member(vm)
    folder.path.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder.control_socket))
        listener.listen()
        yield listener


@contextmanager
def member(state: State, vm: str, pid: int, all_asked: threading.Barrier) -> Iterator[None]:
    """A member that answers once others were asked, too."""
    told = {"vm": vm, "host": "a", "role": "active", "protected": True, "pid": pid}

    def answer(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if not connection.recv(1000):
                    continue
                try:
                    all_asked.wait(1.0)
                except threading.BrokenBarrierError:
                    continue
                connection.sendall(json.dumps(told).encode() + b"\n")

    with listening(state, vm) as listener:
        answering = threading.Thread(target=answer, args=(listener,), daemon=True)
        answering.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        answering.join(LONG_S)


def names() -> list[str]:
    return [f"phone-{number:02}" for number in range(MEMBERS)]


def test_the_status_of_all_is_asked_for_at_the_same_time(stealtime: Command, state: State) -> None:
    all_asked = threading.Barrier(MEMBERS)
    with ExitStack() as stack:
        for vm in names():
            stack.enter_context(member(state, vm, 1, all_asked))
        ended = stealtime("protect", "status", "--json")
    told = json.loads(ended.out)["members"]
    assert [(one["vm"], one["role"]) for one in told] == [(vm, "active") for vm in names()]
    assert ended.code == 0


def test_all_are_told_to_leave_at_the_same_time(state: State) -> None:
    all_asked = threading.Barrier(MEMBERS)
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in names()]
        for process in processes:
            stack.callback(process.kill)
        for vm, process in zip(names(), processes, strict=True):
            stack.enter_context(member(state, vm, process.pid, all_asked))
        left, staying = hand_over_all(state.members(), 5.0)
        assert ([folder.vm for folder in left], staying) == (names(), [])


def test_members_that_stand_still_are_told_and_hide_no_other(
    stealtime: Command, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "TOLD_WITHIN_S", SHORT_S)
    with ExitStack() as stack:
        for vm in names():
            stack.enter_context(listening(state, vm))
        stack.enter_context(member(state, "well", 1, threading.Barrier(1)))
        ended = stealtime("protect", "status", "--json")
    told = {one["vm"]: one for one in json.loads(ended.out)["members"]}
    assert told["well"]["protected"]
    assert {told[vm]["alarms"][0]["kind"] for vm in names()} == {"control"}


def test_a_host_has_told_of_all_its_members_well_before_others_cease_to_wait_for_it() -> None:
    # One that lives and does not answer is connected to once more, for a second.
    assert 2 * (members.TOLD_WITHIN_S + 1.0) < all_hosts.ANSWERS_WITHIN_S
