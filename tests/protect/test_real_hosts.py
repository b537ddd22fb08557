"""The telephony campaign on hosts that are reached over ssh: what is measured there, and that nothing stays there."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_process import finished_run, stored_run
from machines_over_ssh import ADDRESSES, MachinesOverSsh, registrations_on_both

from stealtime.hosts.laboratory import Laboratory
from stealtime.store.run import Trial
from stealtime.studies.telephony.calls.results import CallFailover, Calls
from stealtime.studies.telephony.results import RegistrationFailover, Registrations

pytestmark = [
    pytest.mark.protect,
    # Beside another test the packets of calls leave too late, and a cell that says so is not valid.
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

HEAD = registrations_on_both("on-real-hosts")
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


def assert_registered(trial: Trial) -> None:
    registered = trial.result(Registrations)
    assert registered.acknowledged == registered.sent == 100
    assert registered.server_cpu_ns > 0
    assert registered.host_cpu_ns is not None
    assert registered.host_cpu_ns > 0


def assert_kept(trial: Trial) -> None:
    kept = trial.result(CallFailover)
    # Both ends of each of two calls speak.
    assert (kept.dialogues.ended, kept.voice.heard, kept.registrations.lost) == (2, 4, 0)
    assert 0 < kept.registrations.acknowledged <= kept.registrations.sent
    assert kept.clock_error_ns > 0
    assert kept.running_ns is not None
    assert kept.fault_ns - kept.clock_error_ns < kept.running_ns


@pytest.mark.truth
def test_a_campaign_is_measured_on_hosts_over_ssh(machines: MachinesOverSsh, tmp_path: Path) -> None:
    run, shown = finished_run(machines.run(tmp_path, write(tmp_path)), tmp_path)
    results = {trial.record.cell.measurement: trial for trial in run.measured}
    assert len(results) == 5

    assert_registered(results["register-100ms-net-50-udp"])

    failed_over = results["register-failover-100ms-net-50-udp"].result(RegistrationFailover)
    assert (failed_over.lost, failed_over.unanswered, failed_over.host) == (0, 0, "a")
    assert 0 < failed_over.acknowledged_before < failed_over.acknowledged == failed_over.sent == 100
    # The moments are told by other clocks, which are the same one in truth.
    error_ns = failed_over.clock_error_ns
    assert error_ns > 0
    assert failed_over.fault_to_detection_ns is not None
    assert failed_over.fault_to_running_ns is not None
    assert -error_ns < failed_over.fault_to_detection_ns < failed_over.fault_to_running_ns + error_ns
    assert failed_over.fault_to_answer_ns is not None
    assert failed_over.fault_to_running_ns < failed_over.fault_to_answer_ns + error_ns

    for name in ("call-100ms-net+bypass-4", "call-100ms-net+bypass-apart-4"):
        called = results[name].result(Calls)
        # Both ends of each of two calls speak.
        assert (called.dialogues.ended, called.voice.heard) == (2, 4), name
        assert called.voice.received > 0, name
        assert called.server_cpu_ns > 0, name

    assert_kept(results["call-failover-100ms-net+bypass-4"])
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


@pytest.mark.truth
def test_an_interruption_leaves_nothing_on_the_hosts(machines: MachinesOverSsh, tmp_path: Path) -> None:
    interrupted(machines, tmp_path, signal.SIGINT)
    # It has waited for that.
    assert [machines.left_on(name) for name in ADDRESSES] == [[], []]
    assert stored_run(tmp_path).manifest.state == "interrupted"
    # What was finished is kept.
    assert len(stored_run(tmp_path).measured) >= 1


@pytest.mark.truth
def test_a_killed_campaign_leaves_nothing_on_the_hosts(machines: MachinesOverSsh, tmp_path: Path) -> None:
    interrupted(machines, tmp_path, signal.SIGKILL)
    await_nothing_left(machines)


@pytest.mark.truth
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
