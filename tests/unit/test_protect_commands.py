"""`stealtime protect` from start to stop, with a stand-in for the replicator: processes, folders, words, exit codes."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command import Command, make_command
from scripted_replicator import STOP_ANSWER

from stealtime.lab.memory import MemoryRoom
from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.protect import host_file, machine, session
from stealtime.protect.specification import ImageSpec, MachineSpec
from stealtime.protect.state import STATE_VARIABLE, State, recorded_process
from stealtime.protect.vm_file import VmFile


def resolve_without_images(vm: VmFile) -> MachineSpec:
    """What `resolve_machine` gives, without QEMU and kernels."""
    image = ImageSpec(path=Path("/boot/image"), sha256="00" * 32)
    return MachineSpec(
        name=vm.name,
        accelerator=vm.accelerator,
        machine="pc-i440fx-7.2",
        cpu=vm.cpu,
        vcpus=vm.vcpus,
        memory_bytes=vm.memory_bytes,
        kernel=image,
        initramfs=image,
        kernel_arguments=" ".join(machine.kernel_arguments(vm)),
        mac=vm.mac,
        virtio=vm.virtio,
        devices=tuple(vm.devices),
        disks=(),
    )


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """Where members live; whoever still does afterwards is ended."""
    folder = tmp_path_factory.mktemp("s")
    library = folder / "libstealtime_pagetrack.so"
    library.touch()
    program = folder / "replicator"
    script = Path(__file__).parent / "scripted_replicator.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv(STATE_VARIABLE, str(folder / "p"))
    monkeypatch.setenv("STEALTIME_REPLICATOR", str(program))
    monkeypatch.setenv("STEALTIME_PAGETRACK", str(library))
    monkeypatch.setattr(session, "resolve_machine", resolve_without_images)
    for module in (session, host_file):
        monkeypatch.setattr(module, "find_qemu", lambda: "/usr/bin/qemu-system-x86_64")
    there = State(folder / "p")
    yield there
    for host in there.hosts():
        for pid_file in (host.pid_file, *(member.pid_file for member in host.members())):
            process = recorded_process(pid_file)
            if process is not None:
                process.kill()
                process.wait(timeout=10)


@pytest.fixture
def stealtime(state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


@pytest.fixture
def vm_file(tmp_path: Path) -> Callable[..., str]:
    """Write a VM.toml with these lines added."""

    def write(*lines: str, name: str = "phone") -> str:
        path = tmp_path / f"{name}.toml"
        path.write_text("\n".join((f'name = "{name}"', 'program = "counter"', *lines)))
        return str(path)

    return write


TO_B = ("--to", "b=unix:/run/nobody.sock", "--host", "a")


def test_a_machine_is_started_protected_shown_and_stopped(
    stealtime: Command, vm_file: Callable[..., str], state: State
) -> None:
    started = stealtime("protect", "start", vm_file(), *TO_B)
    assert started.code == 0, started.err
    assert "phone on a: protected by b, mode net" in started.err
    assert started.out == ""

    shown = stealtime("protect", "status", "--json")
    assert shown.code == 0
    (member,) = json.loads(shown.out)["members"]
    assert (member["vm"], member["host"], member["role"], member["protected"]) == ("phone", "a", "active", True)

    folder = state.host("a").member("phone")
    assert folder.lives()
    stopped = stealtime("protect", "stop", "phone")
    assert stopped.code == 0, stopped.err
    assert not folder.lives()
    left = {entry.name for entry in folder.path.iterdir()}
    assert left == {"member.log", "epochs.csv"}


@pytest.mark.parametrize(("accelerator", "warns"), [("kvm", True), ("tcg", False)])
def test_protection_under_kvm_is_begun_with_a_warning(
    stealtime: Command, vm_file: Callable[..., str], state: State, accelerator: str, warns: bool
) -> None:
    started = stealtime("protect", "start", vm_file(f'accelerator = "{accelerator}"'), *TO_B)
    assert started.code == 0, started.err
    assert ("under KVM was proved in an emulated machine only" in started.err) == warns


def test_a_second_start_of_the_same_machine_is_refused(stealtime: Command, vm_file: Callable[..., str]) -> None:
    assert stealtime("protect", "start", vm_file(), *TO_B).code == 0
    again = stealtime("protect", "start", vm_file(), *TO_B)
    assert again.code == 2
    assert "already has a member here, as the host 'a'" in again.err
    elsewhere = stealtime("protect", "start", vm_file(), "--to", "b=unix:/run/nobody.sock", "--host", "c")
    assert elsewhere.code == 2
    other = stealtime("protect", "start", vm_file(name="fax"), *TO_B)
    assert other.code == 0, other.err


def test_a_machine_is_not_started_in_memory_that_another_was_promised(
    stealtime: Command, vm_file: Callable[..., str], state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "read_memory_room", lambda: MemoryRoom(256 << 20, "MemAvailable"))
    assert stealtime("protect", "start", vm_file(name="fax"), *TO_B).code == 0
    # As its member says that it uses none of its memory yet.
    (state.host("a").member("fax").path / "promise.json").write_text(json.dumps({"bytes": 160 << 20}))
    refused = stealtime("protect", "start", vm_file(), *TO_B)
    assert refused.code == 2
    assert "this host 96 MiB to give, as 160 MiB are promised to other machines" in refused.err
    assert stealtime("protect", "stop", "fax").code == 0
    assert stealtime("protect", "start", vm_file(), *TO_B).code == 0


def test_a_member_that_was_killed_is_gone_and_its_machine_can_be_started_again(
    stealtime: Command, vm_file: Callable[..., str], state: State
) -> None:
    assert stealtime("protect", "start", vm_file(), *TO_B).code == 0
    folder = state.host("a").member("phone")
    process = recorded_process(folder.pid_file)
    assert process is not None
    process.send_signal(signal.SIGKILL)
    psutil.wait_procs([process], timeout=10)

    shown = stealtime("protect", "status", "phone", "--json")
    assert shown.code == 3
    assert json.loads(shown.out)["members"][0]["role"] == "gone"
    assert (folder.path / "ram").exists()
    (folder.path / "left").mkdir()
    assert stealtime("protect", "start", vm_file(), *TO_B).code == 0
    assert not (folder.path / "left").exists()
    assert "protected" in stealtime("protect", "status").out


def test_a_member_outlives_the_command_and_the_next_run_of_anything(
    stealtime: Command, vm_file: Callable[..., str], state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_MARK, run_mark())
    assert stealtime("protect", "start", vm_file(), *TO_B).code == 0
    process = recorded_process(state.host("a").member("phone").pid_file)
    assert process is not None
    assert RUN_MARK not in process.environ()
    assert os.getsid(process.pid) == process.pid


def test_a_member_that_ends_at_once_is_told_with_its_last_words(
    stealtime: Command, vm_file: Callable[..., str]
) -> None:
    ended = stealtime("protect", "start", vm_file('kernel_arguments = "fail"'), *TO_B)
    assert ended.code == 1
    assert "the register says that it runs elsewhere" in ended.err
    assert "member.log" in ended.err


def test_what_is_not_protected_in_time_runs_and_is_told(stealtime: Command, vm_file: Callable[..., str]) -> None:
    late = stealtime("protect", "start", vm_file(), *TO_B, "--timeout", "1ns")
    assert late.code == 3
    assert "not protected after 1ns" in late.err


def test_without_waiting_only_the_log_is_told(stealtime: Command, vm_file: Callable[..., str], state: State) -> None:
    started = stealtime("protect", "start", vm_file(), *TO_B, "--no-wait")
    assert started.code == 0
    assert str(state.host("a").member("phone").log) in started.err


def test_a_machine_with_nowhere_to_go_is_refused_unless_it_is_not_to_be_protected(
    stealtime: Command, vm_file: Callable[..., str]
) -> None:
    refused = stealtime("protect", "start", vm_file(), "--host", "a")
    assert refused.code == 2
    assert "has no standby host" in refused.err
    to_itself = stealtime("protect", "start", vm_file(), "--host", "b", "--to", "b=unix:/run/nobody.sock")
    assert to_itself.code == 2
    unprotected = stealtime("protect", "start", vm_file(), "--host", "a", "--mode", "off")
    assert unprotected.code == 0, unprotected.err
    assert stealtime("protect", "status").code == 3


def test_one_machine_can_play_both_hosts_and_ends_them_with_the_last_member(
    stealtime: Command, vm_file: Callable[..., str], state: State
) -> None:
    assert stealtime("protect", "start", vm_file(), "--to", "local", "--host", "a").code == 0
    assert stealtime("protect", "start", vm_file(name="fax"), "--to", "local", "--host", "a").code == 0
    spec = json.loads(state.host("a").member("phone").spec.read_text())
    assert [host["name"] for host in spec["standby_hosts"]] == ["local", "a"]
    daemons = [recorded_process(state.host(name).pid_file) for name in ("local", "a")]
    assert all(daemons)
    config = json.loads(state.host("local").config.read_text())
    assert config["register"] == spec["register"]

    assert stealtime("protect", "stop", "phone").code == 0
    assert recorded_process(state.host("local").pid_file) is not None
    assert stealtime("protect", "stop", "fax").code == 0
    gone, _ = psutil.wait_procs([daemon for daemon in daemons if daemon is not None], timeout=10)
    assert len(gone) == 2


def test_stopping_a_machine_that_is_gone_removes_what_it_left(
    stealtime: Command, vm_file: Callable[..., str], state: State
) -> None:
    assert stealtime("protect", "start", vm_file(), "--to", "local", "--host", "a").code == 0
    process = recorded_process(state.host("a").member("phone").pid_file)
    assert process is not None
    process.kill()
    psutil.wait_procs([process], timeout=10)
    refused = stealtime("protect", "failover", "phone")
    assert refused.code == 1
    assert "its member has ended" in refused.err
    assert recorded_process(state.host("local").pid_file) is not None
    stopped = stealtime("protect", "stop", "phone")
    assert stopped.code == 0
    assert "phone does not run here any more; its files are removed" in stopped.err
    assert not (state.host("a").member("phone").path / "ram").exists()
    assert recorded_process(state.host("local").pid_file) is None


@pytest.mark.parametrize(
    ("answer", "noted", "code", "said"),
    [
        (
            {"error": "stopped here, and lets b run the virtual machine", "hint": "stop it there, too"},
            None,
            1,
            "lets b run the virtual machine\nhint: stop it there, too",
        ),
        (
            {"ended": "stopped, and the register still names this host"},
            None,
            0,
            "phone has ended: stopped, and the register still names this host",
        ),
        # It was gone before its answer was.
        (None, {"event": "left", "reason": "stopped as asked"}, 0, "phone has ended\n"),
        (None, {"event": "fenced", "reason": "handed over to b"}, 1, "it noted: handed over to b"),
        (None, {"event": "began"}, 1, "was gone before it said whether the machine has ended\n"),
    ],
)
def test_a_stop_is_answered_by_what_came_of_it(
    stealtime: Command,
    vm_file: Callable[..., str],
    state: State,
    answer: dict[str, str] | None,
    noted: dict[str, str] | None,
    code: int,
    said: str,
) -> None:
    stealtime("protect", "start", vm_file(), *TO_B)
    folder = state.host("a").member("phone")
    (folder.path / STOP_ANSWER).write_text("" if answer is None else f"{json.dumps(answer)}\n")
    if noted is not None:
        folder.events.write_text(f"{json.dumps(noted)}\n")
    stopped = stealtime("protect", "stop", "phone")
    assert stopped.code == code, stopped.err
    assert said in stopped.err
    assert ("phone has ended" in stopped.err) == (code == 0)


@pytest.fixture
def standby(state: State) -> Iterator[Callable[[bool], threading.Thread]]:
    """Have a member that stands by for `phone` on b, and ends when it is told to."""
    listeners: list[socket.socket] = []

    def start(protected: bool) -> threading.Thread:
        folder = state.host("b").member("phone")
        folder.path.mkdir()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(folder.control_socket))
        listener.listen()
        listeners.append(listener)
        status = {"vm": "phone", "host": "b", "role": "standby", "protected": protected, "acknowledged": 9}

        def serve() -> None:
            told_to_stop = False
            while not told_to_stop:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as reader:
                    line = reader.readline()
                    told_to_stop = b"stop" in line
                    answer = {"left": "phone"} if told_to_stop else status
                    if line:
                        connection.sendall(json.dumps(answer).encode() + b"\n")
            listener.close()

        thread = threading.Thread(target=serve)
        thread.start()
        return thread

    yield start
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_standby_that_has_lost_the_active_host_is_stopped_where_it_is(
    stealtime: Command, standby: Callable[[bool], threading.Thread]
) -> None:
    thread = standby(False)
    stopped = stealtime("protect", "stop", "phone")
    assert (stopped.code, stopped.err) == (
        0,
        "the standby of phone on b has ended: it takes nothing over any more\n",
    )
    thread.join(10)
    assert not thread.is_alive()


def test_a_machine_that_is_protected_is_stopped_where_it_runs(
    stealtime: Command, standby: Callable[[bool], threading.Thread]
) -> None:
    standby(True)
    refused = stealtime("protect", "stop", "phone")
    assert refused.code == 1
    assert "the VM 'phone' does not run here: 'b' is its standby" in refused.err


def test_local_hosts_of_another_configuration_are_not_taken(stealtime: Command, vm_file: Callable[..., str]) -> None:
    assert stealtime("protect", "start", vm_file(), "--to", "local", "--host", "a").code == 0
    other = vm_file('network = { bridge = "br7" }', name="fax")
    refused = stealtime("protect", "start", other, "--to", "local", "--host", "a")
    assert refused.code == 2
    assert "already runs here with another configuration" in refused.err


def test_what_was_chosen_on_the_command_line_goes_before_the_file(
    stealtime: Command, vm_file: Callable[..., str], tmp_path: Path
) -> None:
    rule = ('mode = "net+bypass"', 'bypass = [{ protocol = "udp", dscp = 46 }]')
    hosts = 'standby_hosts = [{ name = "b", endpoint = "unix:/b" }, { name = "c", endpoint = "unix:/c" }]'
    file = vm_file(*rule, hosts)
    told = json.loads(stealtime("protect", "spec", file, "--folder", str(tmp_path)).out)
    assert (told["mode"], len(told["bypass"])) == ("net+bypass", 1)
    told = json.loads(stealtime("protect", "spec", file, "--mode", "no-net", "-i", "25ms", "--to", "c").out)
    assert (told["mode"], told["bypass"], told["interval"]) == ("no-net", [], {"fixed_ns": 25_000_000})
    assert [host["name"] for host in told["standby_hosts"]] == ["c", "b"]
    told = json.loads(stealtime("protect", "spec", file, "-i", "auto").out)
    assert told["interval"] == {"auto_overhead": 0.1}
    on_demand = vm_file('min_interval = "5ms"')
    told = [
        json.loads(stealtime("protect", "spec", on_demand, *options).out)["min_interval_ns"]
        for options in ((), ("--min-interval", "8ms"), ("--mode", "no-net"))
    ]
    assert told == [5_000_000, 8_000_000, None], "where no output waits there is nothing to hurry for"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--interval", "1ms"), "--interval: '1ms' is too short"),
        (("--interval", "soon"), "--interval: 'soon' is not a duration"),
        (("--min-interval", "soon"), "--min-interval: 'soon' is not a duration"),
        (("--min-interval", "1s"), "min_interval is 1s, which is longer than the interval"),
        (("--to", "a b"), "--to: "),
        (("--to", "host-b"), "there is no [identity]"),
        (("--mode", "fast"), "invalid value for '--mode'"),
        (("--timeout", "0"), "--timeout"),
    ],
)
def test_a_wrong_option_is_told_and_nothing_is_started(
    stealtime: Command, vm_file: Callable[..., str], state: State, options: tuple[str, ...], said: str
) -> None:
    refused = stealtime("protect", "start", vm_file(), *options)
    assert refused.code == 2
    assert said in refused.err
    assert state.members() == []


def test_commands_for_a_machine_that_is_not_here_say_so(stealtime: Command, vm_file: Callable[..., str]) -> None:
    empty = stealtime("protect", "status")
    assert (empty.code, empty.out) == (3, "")
    assert "there is no member on this host" in empty.err
    for command in ("failover", "stop"):
        refused = stealtime("protect", command, "fax")
        assert refused.code == 1
        assert "the VM 'fax' does not run on this host" in refused.err
        assert "hint: none is protected here: `stealtime protect start` begins it" in refused.err
    assert "no epochs of the VM 'fax'" in stealtime("protect", "export", "fax", "-o", "x.csv").err


def test_a_machine_that_is_not_protected_is_not_handed_over(stealtime: Command, vm_file: Callable[..., str]) -> None:
    stealtime("protect", "start", vm_file(), "--host", "a", "--mode", "off")
    refused = stealtime("protect", "failover", "phone")
    assert refused.code == 2
    assert "is not protected" in refused.err


def test_a_protected_machine_is_handed_over_or_let_go(stealtime: Command, vm_file: Callable[..., str]) -> None:
    stealtime("protect", "start", vm_file(), *TO_B)
    assert "phone moves to b" in stealtime("protect", "failover", "phone").err
    assert "runs on a, unprotected" in stealtime("protect", "stop", "phone", "--detach").err


def test_figures_are_exported(stealtime: Command, vm_file: Callable[..., str], tmp_path: Path) -> None:
    stealtime("protect", "start", vm_file(), *TO_B)
    out = tmp_path / "epochs.csv"
    assert stealtime("protect", "export", "phone", "--output", str(out)).code == 0
    assert out.read_text() == "term,epoch,pause_ns\n1,1,7000000\n"


def test_watching_and_json_do_not_go_together(stealtime: Command) -> None:
    assert stealtime("protect", "status", "--watch", "--json").code == 2


def test_unit_files_name_this_installation(stealtime: Command, tmp_path: Path) -> None:
    printed = stealtime("protect", "systemd").out
    program = Path(sys.executable).parent / "stealtime"
    assert f"ExecStart={program} protect host /etc/stealtime/host.toml" in printed
    assert f"ExecStart={program} protect start --foreground /etc/stealtime/vms/%i.toml" in printed
    assert "@STEALTIME@" not in printed
    assert stealtime("protect", "systemd", "--install", str(tmp_path)).code == 0
    names = ["stealtime-host.service", "stealtime-leave.service", "stealtime-vm@.service"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_no_unit_ends_a_machine_and_no_signal_is_for_its_qemu(stealtime: Command) -> None:
    printed = stealtime("protect", "systemd").out
    assert "protect stop" not in "\n".join(line for line in printed.splitlines() if not line.startswith("#"))
    host, leave, vm = printed.split("### ")[1:]
    assert "KillMode=process\n" in host
    assert "protect leave" in leave
    assert "KillMode=mixed\n" in vm
    assert "KillSignal=SIGTERM\n" in vm


def test_a_wrong_host_is_refused(stealtime: Command, tmp_path: Path) -> None:
    refused = stealtime("protect", "host", "--listen", "tcp:0.0.0.0:7460")
    assert refused.code == 2
    assert "there is no [identity]" in refused.err
    file = tmp_path / "host.toml"
    file.write_text('name = "b"\nlissten = "unix:/x"\n')
    refused = stealtime("protect", "host", str(file))
    assert (refused.code, "did you mean 'listen'?" in refused.err) == (2, True)
    assert "host.toml, line 2" in refused.err


def test_the_demonstration_of_no_protection_is_refused(stealtime: Command) -> None:
    assert stealtime("protect", "demo", "--mode", "off").code == 2
