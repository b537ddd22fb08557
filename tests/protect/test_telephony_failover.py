"""A SIP server's host dies while phones register, for real: who was acknowledged is known afterwards."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from protect_command import STEALTIME

from stealtime.protect.laboratory_network import NAMESPACES, PREFIX
from stealtime.store.run import Run, runs_in
from stealtime.studies.telephony.results import RegistrationFailover

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

CAMPAIGN = """
name = "failovers"
platforms = ["paravirt"]
scenarios = ["telephony"]
repetitions = 1

[[probes]]
probe = "register-failover"
duration = "1s"
transport = ["udp", "tcp-one"]
mode = ["net"]
rate = [100]

[[probes]]
probe = "register-failover"
duration = "1s"
transport = ["udp"]
mode = ["net+bypass"]
rate = [100]
"""
ENDS_WITHIN_S = 30


def start(folder: Path) -> "subprocess.Popen[str]":
    campaign = folder / "failovers.toml"
    campaign.write_text(CAMPAIGN)
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    argv = [str(STEALTIME), "run", str(campaign)]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def the_run(folder: Path) -> Run:
    (run,) = runs_in(folder / "stealtime/runs")
    return Run.open(run)


def namespaces_of(process: "subprocess.Popen[str]") -> set[str]:
    return {entry.name for entry in NAMESPACES.glob(f"{PREFIX}*:{process.pid}:*")}


def test_no_acknowledged_registration_is_lost_with_its_host(tmp_path: Path) -> None:
    running = start(tmp_path)
    shown, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    trials = {trial.record.cell.measurement: trial for trial in the_run(tmp_path).measured}
    assert len(trials) == 3
    for name, trial in trials.items():
        seen = trial.result(RegistrationFailover)
        assert (seen.lost, seen.lost_users, seen.unanswered) == (0, [], 0), name
        # The blow fell into the load.
        assert 0 < seen.acknowledged_before < seen.acknowledged == seen.sent == seen.users == 200, name
        assert 0 < seen.blow_to_detection_ns < seen.blow_to_running_ns, name
        assert seen.blow_to_answer_ns is not None
        assert seen.silence_ns is not None
        assert seen.blow_to_running_ns < seen.blow_to_answer_ns, name
        assert sum(seen.over_time.answers) <= seen.acknowledged, name
    assert "When the server's host dies while phones register" in shown


def test_an_interruption_leaves_nothing_of_server_and_phones(tmp_path: Path) -> None:
    running = start(tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if "register-failover" in line:
            break
    assert namespaces_of(running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=ENDS_WITHIN_S)
    assert not namespaces_of(running)
    # What was finished is kept.
    assert len(the_run(tmp_path).measured) >= 1
    assert the_run(tmp_path).manifest.state == "interrupted"
