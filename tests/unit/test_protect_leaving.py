"""`stealtime protect leave`, with processes that take commands and SIGTERM in place of members."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from stealtime.protect import leaving
from stealtime.protect.leaving import hand_over_all
from stealtime.protect.members import read_status
from stealtime.protect.stand import poll
from stealtime.protect.state import MemberFolder, State, record_process
from stealtime.protect.status import MemberStatus

MEMBER = """
import json, os, signal, socket, sys, time

path, role, when_told = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

def told(*_):
    if when_told == "falls silent":
        listener.close()
        signal.pause()
    time.sleep(0.2)
    os._exit(0)

signal.signal(signal.SIGTERM, told)
if role != "silent":
    listener.bind(path)
    listener.listen()
print("there", flush=True)
while role == "silent":
    signal.pause()
status = {"vm": "phone", "host": "a", "role": role, "protected": False, "pid": os.getpid()}
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(json.dumps(status).encode() + b"\\n")
"""

LONG_S = 30.0

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    # A short path: sockets are made in it.
    return State(tmp_path_factory.mktemp("s"))


@pytest.fixture
def start(state: State) -> Iterator[Start]:
    """Start a member; whoever still lives afterwards is ended."""
    started = []

    def start_one(
        vm: str = "phone", *, role: str = "solo", when_told: str = "ends", is_noted: bool = True
    ) -> "subprocess.Popen[str]":
        folder = state.host("a").member(vm)
        folder.path.mkdir()
        arguments = [sys.executable, "-c", MEMBER, str(folder.control_socket), role, when_told]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        if is_noted:
            record_process(folder.pid_file, process.pid)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def test_a_member_that_is_told_to_leave_leaves_and_a_standby_stays(state: State, start: Start) -> None:
    member, standby = start("phone"), start("fax", role="standby")
    assert hand_over_all(state.members(), LONG_S) == (["phone"], [])
    assert member.wait(timeout=LONG_S) == 0
    assert standby.poll() is None


def test_a_member_that_ends_before_it_is_told_hinders_no_other(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, member = start("fax"), start("phone")

    def read_and_end(folder: MemberFolder) -> MemberStatus:
        status = read_status(folder)
        if folder.vm == "fax":
            ended.kill()
            ended.wait()
        return status

    monkeypatch.setattr(leaving, "read_status", read_and_end)
    assert hand_over_all(state.members(), LONG_S) == (["fax", "phone"], [])
    assert member.wait(timeout=LONG_S) == 0


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_member_that_does_not_answer_any_more_but_lives_is_still_here(
    state: State, start: Start, is_noted: bool
) -> None:
    member = start(when_told="falls silent", is_noted=is_noted)
    assert hand_over_all(state.members(), 1.0) == ([], ["phone"])
    assert member.poll() is None


def test_a_member_that_does_not_answer_is_told_all_the_same(state: State, start: Start) -> None:
    member = start(role="silent")
    assert hand_over_all(state.members(), LONG_S) == (["phone"], [])
    assert member.wait(timeout=LONG_S) == 0


@pytest.mark.parametrize(("role", "left"), [("solo", ["phone"]), ("standby", [])])
def test_a_member_that_answers_late_is_told_then_if_it_has_the_machine(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch, role: str, left: list[str]
) -> None:
    member = start(role=role, is_noted=False)
    answers = [MemberStatus(vm="phone", host="a", role="starting", protected=False)]
    monkeypatch.setattr(leaving, "read_status", lambda folder: answers.pop() if answers else read_status(folder))
    assert hand_over_all(state.members(), LONG_S) == (left, [])
    assert (member.poll() is None) == (role == "standby")


def test_a_member_that_lives_and_cannot_be_asked_is_an_alarm_and_one_that_has_just_begun_is_not(
    state: State, start: Start
) -> None:
    deaf, _ = start("phone", when_told="falls silent"), start("fax", role="silent")
    folder = state.host("a").member("phone")
    assert read_status(folder).alarms == ()
    deaf.terminate()
    assert poll(lambda: read_status(folder).alarms, LONG_S)
    said = read_status(folder)
    assert (said.role, said.protected, said.alarms[0].kind) == ("starting", False, "control")
    assert said.alarms[0].text.startswith("it lives and cannot be asked: there is no member at ")
    begun = read_status(state.host("a").member("fax"))
    assert (begun.role, begun.alarms, len(begun.warnings)) == ("starting", (), 1)
