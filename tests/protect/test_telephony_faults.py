"""Calls over TCP, sessions that are being set up, a planned move: what becomes of them with their host, for real."""

import os
import shutil
from pathlib import Path

import pytest
from campaign_process import finished_run, start_run

from stealtime.studies.telephony.calls.results import CallFailover
from stealtime.studies.telephony.results import RegistrationFailover, SessionFailover

pytestmark = [
    pytest.mark.protect,
    pytest.mark.truth,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

CAMPAIGN = """
name = "faults"
platforms = ["paravirt"]
scenarios = ["telephony"]
repetitions = 1

[[probes]]
probe = "call-failover"
duration = "1s"
streams = [6]
transport = ["tcp-one", "tcp-each"]
mode = ["net"]

[[probes]]
probe = "session-failover"
duration = "1s"
mode = ["net"]
rate = [20]

[[probes]]
probe = "register-failover"
duration = "1s"
mode = ["net"]
fault = ["silent", "planned"]
rate = [100]
"""


def test_nothing_is_lost_in_net_however_the_host_is_lost(tmp_path: Path) -> None:
    campaign = tmp_path / "faults.toml"
    campaign.write_text(CAMPAIGN)
    run, shown = finished_run(start_run(tmp_path, str(campaign)), tmp_path)
    trials = {trial.record.cell.measurement: trial for trial in run.measured}
    assert len(trials) == 5
    calls = [trial.result(CallFailover) for name, trial in trials.items() if name.startswith("call-failover")]
    for one in calls:
        # Each over its own connection, which outlived the host.
        assert (one.dialogues.answered, one.dialogues.ended, one.dialogues.connections_lost) == (3, 3, 0)
    (sessions,) = (trial.result(SessionFailover) for name, trial in trials.items() if name.startswith("session"))
    assert sessions.begun == sessions.kept + sessions.answered_late
    assert sessions.relay_ports >= 2 * sessions.begun - 2
    assert sessions.leaked_ports == 0
    moved = [trial.result(RegistrationFailover) for name, trial in trials.items() if name.startswith("register")]
    assert [(one.lost, one.unanswered) for one in moved] == [(0, 0), (0, 0)]
    assert "what became of them" in shown
