"""A SIP server's host dies while phones register, for real: who was acknowledged is known afterwards."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from campaign_process import finished_run, interrupt, start_run, stored_run
from truth import IN_FULL

from stealtime.studies.telephony.results import RegistrationFailover

pytestmark = [
    pytest.mark.protect,
    pytest.mark.longer,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

TRANSPORTS = ["udp", "tcp-one", "tcp-each"] if IN_FULL else ["tcp-each"]
CAMPAIGN = f"""
name = "failovers"
platforms = ["paravirt"]
scenarios = ["telephony"]
repetitions = 1

[[probes]]
probe = "register-failover"
duration = "1s"
transport = {json.dumps(TRANSPORTS)}
mode = ["net"]
rate = [100]

[[probes]]
probe = "register-failover"
duration = "1s"
transport = ["udp"]
mode = ["net+bypass"]
rate = [100]
"""


def start(folder: Path) -> "subprocess.Popen[str]":
    campaign = folder / "failovers.toml"
    campaign.write_text(CAMPAIGN)
    return start_run(folder, str(campaign))


@pytest.mark.truth
def test_no_acknowledged_registration_is_lost_with_its_host(tmp_path: Path) -> None:
    run, shown = finished_run(start(tmp_path), tmp_path)
    trials = {trial.record.cell.measurement: trial for trial in run.measured}
    assert len(trials) == len(TRANSPORTS) + 1
    for name, trial in trials.items():
        seen = trial.result(RegistrationFailover)
        assert (seen.lost, seen.lost_users, seen.unanswered) == (0, [], 0), name
        # The fault fell into the load.
        assert 0 < seen.acknowledged_before < seen.acknowledged == seen.sent == seen.users == 200, name
        assert seen.fault_to_detection_ns is not None
        assert seen.fault_to_running_ns is not None
        assert 0 < seen.fault_to_detection_ns < seen.fault_to_running_ns, name
        assert seen.fault_to_answer_ns is not None
        assert seen.silence_ns is not None
        assert seen.fault_to_running_ns < seen.fault_to_answer_ns, name
        assert sum(seen.over_time.answers) <= seen.acknowledged, name
    assert "When the server's host dies while phones register" in shown


@pytest.mark.truth
def test_an_interruption_leaves_nothing_of_server_and_phones(tmp_path: Path) -> None:
    interrupt(start(tmp_path), "register-failover")
    # What was finished is kept, ...
    before = stored_run(tmp_path)
    assert len(before.measured) >= 1
    assert before.manifest.state == "interrupted"
    # ... and stays as it was when the run goes on with what is missing.
    again = start_run(tmp_path, "--resume", before.folder.name)
    resumed, _ = finished_run(again, tmp_path)
    assert resumed.manifest.state == "finished"
    assert len(resumed.measured) == len(TRANSPORTS) + 1
    kept = {trial.record.trial_id: trial.record for trial in resumed.measured}
    assert [kept[trial.record.trial_id] for trial in before.measured] == [trial.record for trial in before.measured]
