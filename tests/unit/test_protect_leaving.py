"""`stealtime protect leave`, with processes that take commands and SIGTERM in place of members."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from command import make_command

from stealtime.hosts.waiting import poll
from stealtime.protect import leaving
from stealtime.protect.leaving import hand_over_all, what_came_of
from stealtime.protect.members import read_status
from stealtime.protect.state import STATE_VARIABLE, MemberFolder, State, record_process
from stealtime.protect.status import MemberStatus

MEMBER = """
import json, os, signal, socket, sys, time

path, role, when_told = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

def told(*_):
    told_s = time.monotonic()
    if when_told == "falls silent":
        listener.close()
        signal.pause()
    time.sleep(0.2)
    with open(f"{path}.moved", "w") as moved:
        print(told_s, time.monotonic(), file=moved)
    os._exit(0)

signal.signal(signal.SIGTERM, told)
if role != "silent":
    listener.bind(path)
    listener.listen()
print("there", flush=True)
while role == "silent":
    signal.pause()
protected = role == "active"
status = {"vm": "phone", "host": "a", "role": role, "protected": protected, "pid": os.getpid()}
while True:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(json.dumps(status).encode() + b"\\n")
"""

LONG_S = 30.0

NOTED = '{"event": "left", "reason": "handed over to b@1 in term 3"}\n'

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
        # As one notes that hands its machine over.
        folder.events.write_text(NOTED)
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


def handed_over(folders: list[MemberFolder], within_s: float) -> tuple[list[str], list[str]]:
    left, staying = hand_over_all(folders, within_s)
    return [folder.vm for folder in left], [folder.vm for folder in staying]


def test_a_member_that_crashed_has_not_left(state: State, start: Start) -> None:
    start("fax"), start("phone")
    crashed = state.host("a").member("phone")
    crashed.events.write_text('{"event": "state", "state": "Protected"}\n')
    left, _ = hand_over_all(state.members(), LONG_S)
    said = {folder.vm: what_came_of(folder) for folder in left}
    assert said["fax"] == "fax has left"
    assert said["phone"].startswith("phone is not here any more, and its member noted no reason: see ")


def test_a_member_that_is_told_to_leave_leaves_and_a_standby_stays(state: State, start: Start) -> None:
    member, standby = start("phone"), start("fax", role="standby")
    assert handed_over(state.members(), LONG_S) == (["phone"], [])
    assert member.wait(timeout=LONG_S) == 0
    assert standby.poll() is None


def test_machines_move_one_after_the_other_and_those_that_are_protected_first(state: State, start: Start) -> None:
    for vm, role in (("fax", "solo"), ("phone", "active"), ("switch", "active")):
        start(vm, role=role)
    said: list[str] = []
    left, staying = hand_over_all(state.members(), LONG_S, lambda folder: said.append(folder.vm))
    assert said[-1] == "fax"
    assert sorted(said) == sorted(folder.vm for folder in left) == ["fax", "phone", "switch"]
    assert staying == []
    moved = [state.host("a").member(vm).control_socket.with_suffix(".sock.moved") for vm in said]
    times = [tuple(map(float, path.read_text().split())) for path in moved]
    assert all(ended_s <= next_told_s for (_, ended_s), (next_told_s, _) in pairwise(times))


def test_one_that_cannot_move_hinders_no_other_and_all_are_told_at_the_end(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_NEXT_AFTER_S", 0.3)
    for vm in ("fax", "phone"):
        start(vm, when_told="falls silent")
    start("switch")
    assert handed_over(state.members(), 3.0) == (["switch"], ["fax", "phone"])
    monkeypatch.setattr(leaving, "_NEXT_AFTER_S", LONG_S)
    later = [start(vm, role="active") for vm in ("modem", "pager")]
    assert handed_over([state.host("a").member(vm) for vm in ("modem", "pager")], 0.0)[1] != []
    assert [one.wait(timeout=LONG_S) for one in later] == [0, 0]


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
    assert handed_over(state.members(), LONG_S) == (["fax", "phone"], [])
    assert member.wait(timeout=LONG_S) == 0


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_member_that_does_not_answer_any_more_but_lives_is_still_here(
    state: State, start: Start, is_noted: bool
) -> None:
    member = start(when_told="falls silent", is_noted=is_noted)
    assert handed_over(state.members(), 1.0) == ([], ["phone"])
    assert member.poll() is None


def test_a_member_that_does_not_answer_is_told_all_the_same(state: State, start: Start) -> None:
    member = start(role="silent")
    assert handed_over(state.members(), LONG_S) == (["phone"], [])
    assert member.wait(timeout=LONG_S) == 0


@pytest.mark.parametrize(("role", "left"), [("solo", ["phone"]), ("standby", [])])
def test_a_member_that_answers_late_is_told_then_if_it_has_the_machine(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch, role: str, left: list[str]
) -> None:
    member = start(role=role, is_noted=False)
    answers = [MemberStatus(vm="phone", host="a", role="starting", protected=False)]
    monkeypatch.setattr(leaving, "read_status", lambda folder: answers.pop() if answers else read_status(folder))
    assert handed_over(state.members(), LONG_S) == (left, [])
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


def test_a_standby_that_takes_its_machine_over_meanwhile_is_told_then(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, _ = start(is_noted=False), start("fax", when_told="falls silent")
    stands_by = MemberStatus(vm="phone", host="a", role="standby", protected=True, pid=member.pid)
    # One that does not answer is not taken for one that has the machine.
    silent = MemberStatus(vm="phone", host="a", role="starting", protected=False)
    answers = [silent, stands_by]

    def answer(folder: MemberFolder) -> MemberStatus:
        return answers.pop() if folder.vm == "phone" and answers else read_status(folder)

    monkeypatch.setattr(leaving, "read_status", answer)
    assert handed_over(state.members(), 3.0) == (["phone"], ["fax"])
    assert member.wait(timeout=LONG_S) == 0


def test_a_host_is_marked_before_its_machines_are_told_and_takes_machines_again_when_it_is_back(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stealtime = make_command(monkeypatch, capsys)
    monkeypatch.setenv(STATE_VARIABLE, str(state.path))
    member = start()
    mark, other = state.host("a").path / ".leaving", state.host("b").path / ".leaving"
    seen = []

    def look(folder: MemberFolder) -> MemberStatus:
        seen.append(mark.read_text())
        return read_status(folder)

    monkeypatch.setattr(leaving, "read_status", look)
    left = stealtime("protect", "leave", "--host", "a")
    assert (left.code, left.err) == (0, "phone has left\n")
    assert member.wait(timeout=LONG_S) == 0
    assert seen[0] == Path("/proc/sys/kernel/random/boot_id").read_text()
    assert not other.exists()
    assert stealtime("protect", "leave").code == 0, "both, as both are on this machine"
    assert other.exists()
    back = stealtime("protect", "leave", "--host", "a", "--back")
    assert (back.code, back.err) == (0, "a takes machines again\n")
    assert not mark.exists()
    assert stealtime("protect", "leave", "--back").err == "a was not left\nb takes machines again\n"
    unknown = stealtime("protect", "leave", "--host", "z")
    assert (unknown.code, "there is no host 'z' on this machine" in unknown.err) == (2, True)


def test_a_host_that_cannot_be_marked_is_left_all_the_same(
    state: State, start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stealtime = make_command(monkeypatch, capsys)
    monkeypatch.setenv(STATE_VARIABLE, str(state.path))
    member = start()
    (state.host("a").path / ".leaving").symlink_to("/proc/nowhere/leaving")
    left = stealtime("protect", "leave")
    assert (left.code, "error: a cannot be kept from taking machines: " in left.err) == (0, True), left.err
    assert "phone has left\n" in left.err
    assert member.wait(timeout=LONG_S) == 0
