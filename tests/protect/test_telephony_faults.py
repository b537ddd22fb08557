"""Calls over TCP, sessions that are being set up, a planned move: what becomes of them with their host, for real."""

import os
import shutil
from pathlib import Path

import pytest
from campaign_process import finished_run, start_run
from counting_guest import PATIENT_TIMING
from sip_capture import Capture
from two_hosts import laboratory_or_skip

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.studies.telephony.calls.results import CallFailover
from stealtime.studies.telephony.calls.session_failover import session_failover
from stealtime.studies.telephony.loads import SessionFailoverParameters
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.results import RegistrationFailover

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
    assert len(trials) == 4
    calls = [trial.result(CallFailover) for name, trial in trials.items() if name.startswith("call-failover")]
    for one in calls:
        # Each over its own connection, which outlived the host.
        assert (one.dialogues.answered, one.dialogues.ended, one.dialogues.connections_lost) == (3, 3, 0)
    moved = [trial.result(RegistrationFailover) for name, trial in trials.items() if name.startswith("register")]
    assert [(one.lost, one.unanswered) for one in moved] == [(0, 0), (0, 0)]
    assert "When the server's host dies under calls: the signalling" in shown


def test_sessions_that_are_being_set_up_outlive_the_host_as_on_the_wire(tmp_path: Path) -> None:
    with laboratory_or_skip() as laboratory:
        place = GuestPlace(NamespaceTestbed(laboratory), "sessions", "net", timing=PATIENT_TIMING)
        place.start()
        place.await_ready()
        with Capture(laboratory) as capture:
            wanted = SessionFailoverParameters(mode="net", rate_per_s=20)
            seen = session_failover(place, wanted, 20, None, 1.0, tmp_path)
    assert seen.begun == 40
    assert seen.kept + seen.answered_late == seen.begun
    # A port for each end, and none is open any more.
    assert (seen.relay_ports, seen.leaked_ports) == (2 * seen.begun, 0)
    assert capture.dropped == 0
    # Each passes from the caller to the server, and from it to the phone; what is sent anew comes on top.
    for name in ("INVITE", "BYE", "200 INVITE", "200 BYE"):
        assert capture.counts[name] >= 2 * seen.begun, name
    assert capture.counts["INVITE"] + capture.counts["BYE"] >= 4 * seen.begun + seen.retransmissions
