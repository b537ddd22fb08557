"""The telephony campaign on hosts that are reached over ssh: what is measured there, and that nothing stays there."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_process import finished_run, stored_run
from machines_over_ssh import ADDRESSES, MachinesOverSsh, campaign_on_both
from protect_command import STEALTIME

from stealtime.hosts.laboratory import GUEST_INTERFACE, Laboratory
from stealtime.store.model import Failure
from stealtime.store.run import runs_in
from stealtime.studies.telephony.calls.results import CallFailover, Calls
from stealtime.studies.telephony.results import RegistrationFailover, Registrations

pytestmark = [
    pytest.mark.protect,
    # Beside another test the packets of calls leave too late, and a cell that says so is not valid.
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

MEDIA_ADDRESS = "10.77.1.101"
HEAD = f"""{campaign_on_both("on-real-hosts", f'media_guest = "{MEDIA_ADDRESS}"')}
[[probes]]
probe = "register"
duration = "2s"
mode = ["net"]
rate = [50]
"""
CAMPAIGN = f"""{HEAD}
[[probes]]
probe = "register-failover"
duration = "1s"
mode = ["net"]
rate = [50]

[[probes]]
probe = "call"
duration = "2s"
mode = ["net+bypass"]
roles = ["together", "apart"]
streams = [4]

[[probes]]
probe = "call-failover"
duration = "1s"
mode = ["net+bypass"]
streams = [4]
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[MachinesOverSsh]:
    with Laboratory() as laboratory:
        yield MachinesOverSsh(laboratory)


def write(folder: Path, text: str = CAMPAIGN) -> str:
    path = folder / "campaign.toml"
    path.write_text(text)
    return str(path)


def test_a_campaign_is_measured_on_hosts_over_ssh(machines: MachinesOverSsh, tmp_path: Path) -> None:
    run, shown = finished_run(machines.run(tmp_path, write(tmp_path)), tmp_path)
    results = {trial.record.cell.measurement: trial for trial in run.measured}
    assert len(results) == 5

    registered = results["register-100ms-net-50-udp"].result(Registrations)
    assert registered.acknowledged == registered.sent == 100
    assert registered.server_cpu_ns > 0
    assert registered.host_cpu_ns is not None
    assert registered.host_cpu_ns > 0

    failed_over = results["register-failover-100ms-net-50-udp"].result(RegistrationFailover)
    assert (failed_over.lost, failed_over.unanswered, failed_over.host) == (0, 0, "a")
    assert 0 < failed_over.acknowledged_before < failed_over.acknowledged == failed_over.sent == 100
    # The moments are told by other clocks, which are the same one in truth.
    error_ns = failed_over.clock_error_ns
    assert error_ns > 0
    assert -error_ns < failed_over.fault_to_detection_ns < failed_over.fault_to_running_ns + error_ns
    assert failed_over.fault_to_answer_ns is not None
    assert failed_over.fault_to_running_ns < failed_over.fault_to_answer_ns + error_ns

    for name in ("call-100ms-net+bypass-4", "call-100ms-net+bypass-apart-4"):
        called = results[name].result(Calls)
        # Both ends of each of two calls speak.
        assert (called.dialogues.ended, called.voice.heard) == (2, 4), name
        assert called.voice.received > 0, name
        assert called.server_cpu_ns > 0, name

    kept = results["call-failover-100ms-net+bypass-4"].result(CallFailover)
    assert (kept.dialogues.ended, kept.voice.heard, kept.registrations.lost) == (2, 4, 0)
    assert 0 < kept.registrations.acknowledged <= kept.registrations.sent
    assert kept.clock_error_ns > 0
    assert kept.fault_ns - kept.clock_error_ns < kept.running_ns
    assert "When the server's host dies while phones register" in shown
    assert [machines.left_on(name) for name in ADDRESSES] == [[], []]


def interrupted(machines: MachinesOverSsh, folder: Path, number: signal.Signals) -> None:
    """Interrupt a run when its second cell has begun: the server is up on both hosts."""
    running = machines.run(folder, write(folder))
    assert running.stderr is not None
    for line in running.stderr:
        if "register-failover" in line:
            break
    assert all(machines.left_on(name) for name in ADDRESSES)
    running.send_signal(number)
    running.communicate(timeout=60)


def await_nothing_left(machines: MachinesOverSsh) -> None:
    deadline = time.monotonic() + 60
    while any(left := [machines.left_on(name) for name in ADDRESSES]):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def test_an_interruption_leaves_nothing_on_the_hosts(machines: MachinesOverSsh, tmp_path: Path) -> None:
    interrupted(machines, tmp_path, signal.SIGINT)
    # It has waited for that.
    assert [machines.left_on(name) for name in ADDRESSES] == [[], []]
    assert stored_run(tmp_path).manifest.state == "interrupted"
    # What was finished is kept.
    assert len(stored_run(tmp_path).measured) >= 1


def test_a_killed_campaign_leaves_nothing_on_the_hosts(machines: MachinesOverSsh, tmp_path: Path) -> None:
    interrupted(machines, tmp_path, signal.SIGKILL)
    await_nothing_left(machines)


def failed(machines: MachinesOverSsh, folder: Path, text: str) -> Failure:
    """Have a campaign fail; give why its first cell did."""
    running = machines.run(folder, write(folder, text))
    _, said = running.communicate(timeout=120)
    assert running.returncode != 0, said
    assert runs_in(folder / "stealtime/runs"), said
    failure = stored_run(folder).trials[0].record.failure
    assert failure is not None
    return failure


def assert_refused(machines: MachinesOverSsh, folder: Path, text: str, message: str, hint: str) -> None:
    failure = failed(machines, folder, text)
    assert message in failure.message, failure
    assert hint in (failure.hint or ""), failure
    assert [machines.left_on(name) for name in ADDRESSES] == [[], []]


@pytest.mark.parametrize(
    ("changed", "to", "message", "hint"),
    [
        (f'stealtime = "{STEALTIME}"', 'stealtime = "/no/stealtime"', "stealtime is not to be found at", "its path"),
        (ADDRESSES["b"], "10.77.1.77", "10.77.1.77 cannot be reached over ssh", "ssh root@10.77.1.77 true"),
        (ADDRESSES["b"], ADDRESSES["a"], "have the same name 'a'", "another machine"),
        (GUEST_INTERFACE, f"{ADDRESSES['b']}/24", f"guest's address {ADDRESSES['b']} is taken", "a free one"),
        ('mode = ["net"]', 'mode = ["replicated"]', "the addresses of 2 guests, and 3 are needed", "`more_guests`"),
    ],
)
def test_what_cannot_be_had_is_a_sentence_and_a_hint(
    machines: MachinesOverSsh, tmp_path: Path, changed: str, to: str, message: str, hint: str
) -> None:
    assert changed in HEAD
    assert_refused(machines, tmp_path, HEAD.replace(changed, to), message, hint)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("echo \"error: No such command 'serve'.\" >&2; exit 2", "cannot lend its host"),
        (
            'read question; echo \'{"number": 0, "version": 1, "stealtime": "0.0.1"}\'; read end',
            "has stealtime 0.0.1, and this machine",
        ),
        ("exec /bin/false", "answers no more"),
    ],
)
def test_another_stealtime_on_a_host_is_named(
    machines: MachinesOverSsh, tmp_path: Path, program: str, message: str
) -> None:
    other = tmp_path / "other-stealtime"
    other.write_text(f"#!/bin/sh\n{program}\n")
    other.chmod(0o755)
    assert_refused(machines, tmp_path, HEAD.replace(str(STEALTIME), str(other)), message, "")


def test_a_host_without_a_daemon_is_named(tmp_path: Path) -> None:
    with Laboratory() as laboratory:
        machines = MachinesOverSsh(laboratory, without_daemon=("b",))
        assert_refused(machines, tmp_path, HEAD, "no daemon receives machines on", "systemctl start stealtime-host")


def test_a_host_that_is_cut_off_is_taken_for_lost(tmp_path: Path) -> None:
    with Laboratory() as laboratory:
        machines = MachinesOverSsh(laboratory)
        running = machines.run(tmp_path, write(tmp_path, HEAD))
        deadline = time.monotonic() + 60
        while not any("qemu-system" in one for one in machines.left_on("b")):
            assert time.monotonic() < deadline, machines.log("b")
            time.sleep(0.2)
        laboratory.cut("b", "clients", "both")
        _, said = running.communicate(timeout=120)
        assert running.returncode == 1, said
        failure = stored_run(tmp_path).trials[0].record.failure
        assert failure is not None
        assert f"the connection to {ADDRESSES['b']} was lost" in failure.message, failure
