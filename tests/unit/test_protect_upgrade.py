"""`stealtime protect upgrade`, where it cannot be done: it is told before anything is changed, and can be resumed."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from command import Command

from stealtime.protect import upgrade
from stealtime.protect.specification import FileRegisterSpec, HostSpec, write_document
from stealtime.protect.state import STATE_VARIABLE, MemberFolder, State, record_process


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> State:
    # A short path: sockets are made in it.
    made = State(tmp_path_factory.mktemp("s"))
    monkeypatch.setenv(STATE_VARIABLE, str(made.path))
    return made


def with_daemon(state: State, name: str) -> None:
    """Have this very process taken for the daemon of a host."""
    record_process(state.host(name).pid_file, os.getpid())


@contextmanager
def member(state: State, vm: str, **status: Any) -> Iterator[None]:
    """Somebody who answers as a member of a machine does."""
    folder = state.host("a").member(vm)
    folder.path.mkdir()
    told = {"vm": vm, "host": "a", "role": "active", "protected": True, "pid": os.getpid(), **status}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder.control_socket))
        listener.listen()
        listener.settimeout(30.0)

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(json.dumps(told).encode() + b"\n")

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
    answering.join(30.0)


def test_it_takes_a_command_or_goes_on_with_one(stealtime: Command, state: State) -> None:
    for arguments in ((), ("--resume", "--", "true")):
        ended = stealtime("protect", "upgrade", *arguments)
        assert ended.code == 2
        assert "error: name the command that installs the new version, or --resume" in ended.err


def test_without_a_daemon_no_machine_could_come_back(stealtime: Command, state: State) -> None:
    ended = stealtime("protect", "upgrade", "--", "true")
    assert ended.code == 2
    assert "error: no daemon receives machines here" in ended.err
    assert "hint: start it, so that machines can come back" in ended.err


def test_of_several_hosts_one_is_named(stealtime: Command, state: State) -> None:
    with_daemon(state, "a")
    with_daemon(state, "b")
    ended = stealtime("protect", "upgrade", "--", "true")
    assert ended.code == 2
    assert "the daemons of several hosts run here: a, b" in ended.err
    ended = stealtime("protect", "upgrade", "--host", "c", "--", "true")
    assert "no daemon of the host 'c' runs here" in ended.err


def test_a_command_that_is_no_program_is_told_before_a_machine_moves(stealtime: Command, state: State) -> None:
    with_daemon(state, "a")
    with member(state, "phone"):
        ended = stealtime("protect", "upgrade", "--", "nosuchprogram")
    assert ended.code == 2
    assert "error: there is no program 'nosuchprogram'" in ended.err
    assert not (state.path / "a" / "upgrade.json").exists()


def test_a_machine_that_is_not_protected_stays_and_nothing_is_changed(
    stealtime: Command, state: State, tmp_path: Path
) -> None:
    with_daemon(state, "a")
    with member(state, "phone", role="solo", protected=False):
        ended = stealtime("protect", "upgrade", "--", "touch", str(tmp_path / "ran"))
    assert ended.code == 1
    assert "the VM 'phone' is not protected, so it cannot leave a: nothing was changed" in ended.err
    assert not (tmp_path / "ran").exists()
    assert not (state.path / "a" / "upgrade.json").exists()


def test_a_command_that_fails_leaves_the_daemon_and_can_be_resumed(stealtime: Command, state: State) -> None:
    with_daemon(state, "a")
    ended = stealtime("protect", "upgrade", "--", "false")
    assert ended.code == 1
    assert "error: false ended with 1; the machines go on elsewhere" in ended.err
    assert "stealtime protect upgrade --resume" in ended.err
    assert json.loads((state.path / "a" / "upgrade.json").read_text())["machines"] == []


def test_there_is_nothing_to_resume(stealtime: Command, state: State) -> None:
    with_daemon(state, "a")
    ended = stealtime("protect", "upgrade", "--resume")
    assert ended.code == 2
    assert "error: no upgrade of a has begun" in ended.err


def test_a_command_that_is_no_program_after_all_is_told_in_a_sentence(
    stealtime: Command, state: State, tmp_path: Path
) -> None:
    with_daemon(state, "a")
    text = tmp_path / "install"
    text.write_bytes(b"\0 no program")
    text.chmod(0o755)
    ended = stealtime("protect", "upgrade", "--", str(text))
    assert ended.code == 1
    assert f"error: {text} cannot be run: Exec format error; the machines go on elsewhere" in ended.err


def test_where_nothing_can_be_noted_no_machine_moves(stealtime: Command, state: State) -> None:
    with_daemon(state, "a")
    (state.path / "a" / "upgrade.json").symlink_to("/proc/nowhere/upgrade.json")
    ended = stealtime("protect", "upgrade", "--", "true")
    assert ended.code == 1
    assert "upgrade.json" in ended.err.splitlines()[0]


def described(state: State, folder: Path) -> None:
    """Say what the daemon of the host was told: where its register is, above all."""
    host = state.host("a")
    told = HostSpec(
        name="a",
        listen="tcp:10.0.0.1:7460",
        bridge=None,
        register_=FileRegisterSpec(file=folder),
        identity=None,
        folder=host.path,
        qemu=Path("/bin/true"),
        qemu_user=None,
        images=(),
        disks=None,
        copies=2,
        metrics="127.0.0.1",
        allow_faults=False,
    )
    write_document(host.config, told)


def test_a_machine_that_was_stopped_meanwhile_is_told_and_forgotten(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The register is read by the replicator itself: what it is told of a machine must be enough for it."""
    monkeypatch.setattr(upgrade, "_restart_daemon", lambda _: psutil.Process())
    described(state, tmp_path)
    host = state.host("a")
    records = {
        "stopped": {"term": 3, "holder": None, "standby": None, "renewals": 7},
        "elsewhere": {"term": 3, "holder": "b@0000000000000001", "standby": None, "renewals": 7},
    }
    for vm, record in records.items():
        (tmp_path / f"{vm}.{1:020}.json").write_text(json.dumps(record))
    note = host.path / "upgrade.json"
    note.write_text(json.dumps({"host": "a", "version": "0", "machines": ["stopped", "elsewhere", "unheard-of"]}))
    said: list[str] = []
    not_back = upgrade.complete(host, 0.1, said.append)
    assert said[1:] == ["stopped was stopped meanwhile"]
    assert [sentence.partition(" ")[0] for sentence in not_back] == ["elsewhere", "unheard-of"]
    assert json.loads(note.read_text())["machines"] == ["elsewhere", "unheard-of"]
    for vm in ("elsewhere", "unheard-of"):
        (tmp_path / f"{vm}.{2:020}.json").write_text(json.dumps(records["stopped"]))
    assert upgrade.complete(host, 0.1, said.append) == []
    assert not note.exists(), "nothing is left to come back"


def test_the_help_says_what_a_reboot_takes(stealtime: Command) -> None:
    ended = stealtime("protect", "upgrade", "-h")
    assert "reboots this host" in " ".join(ended.out.split())


def test_a_host_is_left_by_its_machines_only_while_they_move(
    stealtime: Command, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_daemon(state, "a")
    mark, seen = state.host("a").path / ".leaving", tmp_path / "seen"
    moving = []

    def hand_over(folders: object, within_s: float, say: object) -> tuple[list[MemberFolder], list[MemberFolder]]:
        moving.append(mark.exists())
        return [], [state.host("a").member("phone")] if len(moving) == 1 else []

    monkeypatch.setattr(upgrade, "hand_over_all", hand_over)
    given_up = stealtime("protect", "upgrade", "--", "true")
    assert "not upgraded: phone is still here" in given_up.err
    assert not mark.exists()
    # It does not go down: what it takes meanwhile is protected while the command runs.
    assert stealtime("protect", "upgrade", "--", "sh", "-c", f"ls -A {mark.parent} >{seen}; false").code == 1
    assert moving == [True, True]
    assert ".leaving" not in seen.read_text()
