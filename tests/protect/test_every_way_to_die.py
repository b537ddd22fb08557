"""The host of the standby, those of all primaries at once, and a front are lost, for real: what phones see of it."""

import os
import shutil
from pathlib import Path

import pytest
from campaign_process import finished_run, start_run

from stealtime.hosts.namespace_testbed import STANDBY
from stealtime.studies.telephony.registrations.front_lost import LOST_FRONT
from stealtime.studies.telephony.results import RegistrationFailover, TwoStageFailover

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

CAMPAIGN = """
name = "victims"
platforms = ["paravirt"]
scenarios = ["telephony"]
repetitions = 1
"""
STANDBYS = """
[[probes]]
probe = "register-failover"
duration = "1s"
mode = ["net"]
victim = ["standby"]
fault = ["killed", "silent"]
rate = [100]
"""
STAGES = """
[[probes]]
probe = "two-stage-failover"
duration = "1500ms"
mode = ["net"]
victim = ["front", "all-primaries"]
rate = [100]
"""


# Its members have the usual deadlines: 0.3 s without a CPU, beside other guests, and the standby takes over.
@pytest.mark.alone
@pytest.mark.truth
def test_a_server_whose_standby_is_lost_runs_on_and_is_protected_again(tmp_path: Path) -> None:
    campaign = tmp_path / "victims.toml"
    campaign.write_text(CAMPAIGN + STANDBYS)
    run, shown = finished_run(start_run(tmp_path, str(campaign)), tmp_path)
    trials = {trial.record.cell.parameters.get("fault"): trial.result(RegistrationFailover) for trial in run.measured}
    killed, silent = trials[None], trials["silent"]
    for one in (killed, silent):
        assert (one.victim, one.host, one.lost, one.unanswered) == ("standby", STANDBY, 0, 0)
        # No guest ran anew: nothing was taken over.
        assert (one.fault_to_detection_ns, one.fault_to_running_ns) == (None, None)
        assert 0 < one.acknowledged_before < one.acknowledged == one.sent == one.users
        lapse = one.unprotected
        assert lapse is not None
        assert 0 < lapse.fault_to_noticed_ns <= lapse.fault_to_alone_ns < lapse.fault_to_protected_ns
        assert one.silence_ns is not None
        assert one.longest_ns is not None
        # What the server says is held until the register has said that it is alone.
        assert one.silence_ns > lapse.fault_to_alone_ns - lapse.fault_to_noticed_ns
    assert killed.unprotected is not None
    assert silent.unprotected is not None
    assert killed.unprotected.fault_to_back_ns is None
    # A host that is gone backs nothing until it is back.
    assert silent.unprotected.fault_to_back_ns is not None
    assert silent.unprotected.fault_to_back_ns >= 1_000_000_000
    assert silent.unprotected.fault_to_protected_ns > silent.unprotected.fault_to_back_ns
    assert "When the host that backs the server is lost while phones register" in shown


@pytest.mark.truth
def test_a_front_and_then_all_primaries_at_once_are_lost(tmp_path: Path) -> None:
    campaign = tmp_path / "victims.toml"
    campaign.write_text(CAMPAIGN + STAGES)
    run, shown = finished_run(start_run(tmp_path, str(campaign)), tmp_path)
    trials = {trial.result(TwoStageFailover).victim: trial.result(TwoStageFailover) for trial in run.measured}
    without_front, without_primaries = trials["front"], trials["all-primaries"]
    for one in (without_front, without_primaries):
        assert one.sent == one.acknowledged == 300
        assert (one.lost, one.lost_users, one.unanswered, one.added.lost) == (0, [], 0, 0)

    front = without_front.front
    assert front is not None
    assert (without_front.host, front.name, front.timed_out) == (LOST_FRONT, LOST_FRONT, 0)
    assert 0 < front.turned < front.phones < without_front.sent
    assert front.longest_wait_ns is not None
    # No primary was harmed: each guest is where it was.
    assert [one.runs_on for one in without_front.primaries] == [one.host for one in without_front.primaries]

    # One standby took both over, and each has its users there.
    assert [one.runs_on for one in without_primaries.primaries] == [STANDBY, STANDBY]
    homes = [one.host for one in without_primaries.primaries]
    assert (len(set(homes)), without_primaries.host) == (2, ", ".join(homes))
    assert sum(one.users for one in without_primaries.primaries) == without_primaries.acknowledged
    assert all(one.users > 0 for one in without_primaries.primaries)
    running_ns = without_primaries.fault_to_running_ns
    assert running_ns is not None
    assert running_ns > 0
    assert "Two stages: when a front is lost, and its phones turn to the other one" in shown
    assert "Two stages: when hosts of primaries die while phones register" in shown
