"""What needs more than one protected server of real hosts: replicated servers, two stages, the study of protection."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_process import finished_run
from machines_over_ssh import MachinesOverSsh, campaign_on_both

from stealtime.hosts import network
from stealtime.hosts.laboratory import Laboratory
from stealtime.store.run import Trial
from stealtime.studies.protection.results import Failover, RoundTrips
from stealtime.studies.telephony.calls.results import CallFailover
from stealtime.studies.telephony.calls.stage_results import TwoStageCallFailover
from stealtime.studies.telephony.results import RegistrationFailover, TwoStageFailover

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

THIRD = {"c": "10.77.1.3"}
FRONTS = ("10.77.1.21", "10.77.1.22")
NAME_SERVER = "10.77.1.23"
HEAD = campaign_on_both(
    "more-on-real-hosts",
    'more_guests = ["10.77.1.101", "10.77.1.102"]',
    f'more_hosts = ["ssh:root@{THIRD["c"]}"]',
    f"fronts = {list(FRONTS)}",
    f'name_server = "{NAME_SERVER}"',
)


@pytest.fixture(scope="module")
def machines() -> Iterator[MachinesOverSsh]:
    with Laboratory(("a", "b", "c")) as laboratory:
        addresses = [f"address add {address}/24 dev clients" for address in (*FRONTS, NAME_SERVER)]
        network.batch(laboratory.client.namespace, addresses)
        yield MachinesOverSsh(laboratory, others=THIRD)


def measured(machines: MachinesOverSsh, folder: Path, probes: str) -> tuple[dict[str, Trial], str]:
    """Run a campaign; give its trials by their measurement, and what it showed."""
    path = folder / "campaign.toml"
    path.write_text(HEAD + probes)
    run, shown = finished_run(machines.run(folder, str(path)), folder)
    assert [machines.left_on(name) for name in machines.addresses] == [[], [], []]
    return {trial.record.cell.measurement: trial for trial in run.measured}, shown


@pytest.mark.truth
def test_hosts_over_ssh_die_in_both_ways_and_the_client_loses_nothing(
    machines: MachinesOverSsh, tmp_path: Path
) -> None:
    probes = """
[[probes]]
probe = "failover"
duration = "2s"

[[probes]]
probe = "roundtrip"
duration = "2s"
"""
    trials, shown = measured(machines, tmp_path, probes)
    assert len(trials) == 4
    for fault in ("killed", "silent"):
        seen = trials[f"failover-{fault}-100ms-net"].result(Failover)
        assert (seen.violations, seen.tcp_lived, seen.pages_wrong) == ({}, True, 0)
        assert seen.unanswered_protocols == ()
        assert seen.acknowledged > 0
        assert seen.clock_error_ns > 0
        assert 0 < seen.decision_to_running_ns < seen.fault_to_running_ns + seen.clock_error_ns
        assert seen.checkpoints is not None
        assert seen.checkpoints.shipped_bytes > 0
    alone = trials["roundtrip-off"].result(RoundTrips)
    assert trials["roundtrip-100ms-net"].result(RoundTrips).tcp_p50_ns > alone.tcp_p50_ns
    assert "When its host dies" in shown


@pytest.mark.truth
def test_one_of_two_replicated_servers_outlives_the_host_of_the_other(
    machines: MachinesOverSsh, tmp_path: Path
) -> None:
    probes = """
[[probes]]
probe = "register-failover"
duration = "2s"
mode = ["replicated"]
advertisement = ["300ms"]
rate = [50]
"""
    trials, _ = measured(machines, tmp_path, probes)
    (seen,) = (trial.result(RegistrationFailover) for trial in trials.values())
    assert 0 < seen.acknowledged_before < seen.acknowledged == seen.users
    # What the other server was just being told of may be missing.
    assert seen.lost <= 50 * 0.3, seen.lost_users
    assert seen.clock_error_ns > 0


@pytest.mark.truth
def test_the_users_of_a_primary_are_kept_when_its_host_dies(machines: MachinesOverSsh, tmp_path: Path) -> None:
    probes = """
[[probes]]
probe = "two-stage-failover"
duration = "2s"
rate = [50]

[[probes]]
probe = "two-stage-call-failover"
duration = "1s"
mode = ["net"]
streams = [12]
"""
    trials, _ = measured(machines, tmp_path, probes)
    (seen,) = (trial.result(TwoStageFailover) for name, trial in trials.items() if "call" not in name)
    assert [one.host for one in seen.primaries] == ["a", "c"]
    assert all(one.users > 0 for one in seen.primaries)
    assert (seen.host, seen.lost, seen.unanswered, seen.added.lost) == ("a", 0, 0, 0)
    assert seen.sent == seen.acknowledged == sum(seen.fronts.values())
    assert seen.clock_error_ns > 0

    (called,) = (trial.result(TwoStageCallFailover) for name, trial in trials.items() if "call" in name)
    assert [(one.host, one.standby, one.kept) for one in called.calls] == [
        (host, "b", one.calls) for host, one in zip("ac", called.calls, strict=True)
    ]
    assert sum(one.calls for one in called.calls) == called.dialogues.ended == 6
    assert (called.host, called.survived, called.registrations.lost) == ("a", "b", 0)


@pytest.mark.truth
def test_media_lose_their_host_over_ssh_and_signalling_goes_on(machines: MachinesOverSsh, tmp_path: Path) -> None:
    probes = """
[[probes]]
probe = "call-failover"
duration = "1s"
streams = [6]
mode = ["net+bypass"]
roles = ["hosts"]
victim = ["media"]
"""
    trials, shown = measured(machines, tmp_path, probes)
    (seen,) = (trial.result(CallFailover) for trial in trials.values())
    assert (seen.victim, seen.dialogues.answered, seen.dialogues.ended) == ("media", 3, 3)
    assert (seen.registrations.acknowledged, seen.registrations.lost) == (seen.registrations.sent, 0)
    assert seen.clock_error_ns > 0
    assert "media on another host, media's host" in shown
