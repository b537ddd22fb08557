"""Folders of hosts and members, and who lives in them."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stealtime.protect.state import (
    STATE_VARIABLE,
    State,
    default_state,
    record_process,
    recorded_process,
)
from stealtime.vocabulary.errors import StealtimeError


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    # A short path: sockets are made in it.
    return State(tmp_path_factory.mktemp("s"))


def test_the_folder_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    assert default_state().path == tmp_path
    monkeypatch.delenv(STATE_VARIABLE)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("stealtime.protect.state._EARLIER_REGISTER", tmp_path / "nowhere")
    assert default_state() == State(Path("/run/stealtime/protect"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert default_state().path == Path("/run/user/1000/stealtime/protect")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(StealtimeError, match="XDG_RUNTIME_DIR is not set"):
        default_state()


@pytest.mark.skipif(os.geteuid() != 0, reason="of root's state; and only root can give a folder to somebody else")
def test_nobody_else_can_take_roots_register_away_or_be_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(STATE_VARIABLE, raising=False)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir(mode=0o700)
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "file").touch(mode=0o600)
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("theirs", "link", "file", "open", "nowhere"):
        monkeypatch.setattr("stealtime.protect.state._EARLIER_REGISTER", tmp_path / name)
        assert default_state().register == Path("/run/stealtime/protect/register"), name
        assert not (tmp_path / "nowhere").exists(), "nothing is made by asking"
    # Members of the release before may still use it.
    monkeypatch.setattr("stealtime.protect.state._EARLIER_REGISTER", ours)
    assert default_state().register == ours


def test_hosts_and_members_are_found_and_the_register_is_neither(state: State) -> None:
    for host, vm in (("b", "phone"), ("a", "phone"), ("a", "fax")):
        state.host(host).member(vm).path.mkdir()
    state.register.mkdir()
    state.host("a").log.touch()
    (state.host("a").path / ".waiting").mkdir()  # as admission.rs makes it
    assert [host.host for host in state.hosts()] == ["a", "b"]
    assert [(one.host, one.vm) for one in state.members()] == [("a", "fax"), ("a", "phone"), ("b", "phone")]
    assert [one.host for one in state.members("phone")] == ["a", "b"]
    assert State(state.path / "nowhere").members() == []


def test_only_names_of_machines_are_machines(state: State) -> None:
    host = state.host("a")
    # Machines that wait to be let in, what is left of one that was not, and anything else.
    for name in (".waiting", ".left-7", "phone", "Not a machine", "phone\n"):
        (host.path / name).mkdir()
    assert [member.vm for member in host.members()] == ["phone"]
    assert [member.vm for member in state.members()] == ["phone"]


def test_memory_that_is_promised_to_members_that_live_is_counted(state: State) -> None:
    host = state.host("a")
    for vm, promise in (("phone", '{"bytes": 100, "copies": false}'), ("fax", '{"bytes": 7}'), ("old", "{")):
        host.member(vm).path.mkdir()
        (host.member(vm).path / "promise.json").write_text(promise)
    (state.host("b").path / "pbx").mkdir()
    assert host.promised_bytes("pbx") == 0, "nobody lives there"
    with contextlib.ExitStack() as living:
        for vm in ("phone", "fax", "old"):
            lock = living.enter_context((host.member(vm).path / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert host.promised_bytes("pbx") == 107
        assert host.promised_bytes("phone") == 7, "its own is not in its way"
    assert state.host("b").promised_bytes("phone") == 0


def test_a_host_is_its_owners_alone(state: State) -> None:
    assert state.host("a").path.stat().st_mode & 0o777 == 0o700
    fresh = State(state.path / "above" / "protect")
    fresh.host("a")
    assert fresh.path.stat().st_mode & 0o777 == 0o700, "the register is made in it"


def test_a_name_that_is_too_long_for_a_socket_is_refused(state: State) -> None:
    with pytest.raises(StealtimeError, match="at most 107 bytes"):
        state.host("h" * 63).member("v" * 40)


def test_a_process_is_known_by_pid_and_start(state: State) -> None:
    pid_file = state.path / "member.pid"
    assert recorded_process(pid_file) is None
    record_process(pid_file, os.getpid(), automatic=True)
    found = recorded_process(pid_file)
    assert found is not None
    assert found.pid == os.getpid()
    noted = json.loads(pid_file.read_text())
    namespace, pid, ticks = noted["owner"].split(":")
    # The same pid, but of a process that began at another time, or of another namespace.
    for other in (f"{namespace}:{pid}:{int(ticks) - 1}", f"{int(namespace) + 1}:{pid}:{ticks}"):
        pid_file.write_text(json.dumps({**noted, "owner": other}))
        assert recorded_process(pid_file) is None
    pid_file.write_text("{")
    assert recorded_process(pid_file) is None


def test_a_process_that_nobody_has_waited_for_is_dead(state: State) -> None:
    pid_file = state.path / "member.pid"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record_process(pid_file, process.pid)
        assert recorded_process(pid_file) is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert recorded_process(pid_file) is None


def test_a_member_that_a_daemon_started_lives_by_its_socket(state: State) -> None:
    folder = state.host("b").member("phone")
    folder.path.mkdir()
    assert not folder.lives()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder.control_socket))
        listener.listen(1)
        assert folder.lives()
    # The file outlives whoever listened.
    assert folder.control_socket.exists()
    assert not folder.lives()


def test_a_member_that_stands_still_lives(state: State) -> None:
    folder = state.host("b").member("phone")
    folder.path.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder.control_socket))
        listener.listen(0)
        waiting = []
        # Until its queue is full: nobody accepts.
        for _ in range(3):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.setblocking(False)
            waiting.append(connection)
            try:
                connection.connect(str(folder.control_socket))
            except BlockingIOError:
                break
        assert folder.lives()
        for connection in waiting:
            connection.close()


def test_clearing_keeps_what_a_dead_member_says(state: State) -> None:
    folder = state.host("a").member("phone")
    (folder.path / "folder").mkdir(parents=True)
    bounded = ("console.log", "epochs.csv", "events.jsonl")
    kept = ("lock", "member.log", *bounded, *(f"{name}.1" for name in bounded))
    for name in (*kept, "spec.json", "control.sock", "ram", "ram.1", "folder/file"):
        (folder.path / name).touch()
    (folder.path / "link").symlink_to(state.path)
    folder.clear()
    assert {entry.name for entry in folder.path.iterdir()} == set(kept)
    assert state.path.is_dir()
    state.host("a").member("never-there").clear()


def test_one_start_at_a_time_decides(state: State) -> None:
    code = (
        "import sys; from pathlib import Path; from stealtime.protect.state import State\n"
        "with State(Path(sys.argv[1])).starting(): print('in', flush=True)\n"
    )
    with state.starting():
        other = subprocess.Popen([sys.executable, "-c", code, str(state.path)], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=0.5)
    output, _ = other.communicate(timeout=60)
    assert output == "in\n"


def test_a_member_whose_socket_answers_nobody_lives_as_long_as_it_holds_its_folder(state: State) -> None:
    member = state.host("a").member("phone")
    member.path.mkdir(parents=True)
    assert not member.lives()
    with (member.path / "lock").open("w") as lock:
        assert not member.lives(), "a lock that nobody holds"
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert member.lives()
    assert not member.lives()
