"""The builtin campaign `protection` for real: two hosts, both faults, and what the clients saw."""

import os
from pathlib import Path

import pytest
from campaign_process import finished_run, interrupt, start_run, stored_run

from stealtime.studies.protection.results import Failover, RoundTrips

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


def test_a_host_dies_in_both_ways_and_the_client_loses_nothing(tmp_path: Path) -> None:
    run, shown = finished_run(start_run(tmp_path, "protection", "--short"), tmp_path)
    trials = {trial.record.cell.measurement: trial for trial in run.measured}
    assert len(trials) == 4, [(trial.record.trial_id, trial.record.failure) for trial in run.trials]
    for fault in ("killed", "silent"):
        seen = trials[f"failover-{fault}-100ms-net"].result(Failover)
        assert (seen.violations, seen.tcp_lived, seen.pages_wrong) == ({}, True, 0), seen
        assert seen.acknowledged > 0
        assert 0 < seen.decision_to_running_ns < seen.fault_to_running_ns, seen
        # What the client waited for is at least as long as nobody ran.
        assert seen.fault_to_running_ns < min(seen.silence_tcp_ns, seen.silence_udp_ns), seen
        assert seen.checkpoints is not None
        assert seen.checkpoints.shipped_bytes > 0
    protected = trials["roundtrip-100ms-net"].result(RoundTrips)
    alone = trials["roundtrip-off"].result(RoundTrips)
    assert alone.checkpoints is None
    # Each answer is held until its checkpoint is acknowledged, 100 ms apart.
    assert protected.tcp_p50_ns > alone.tcp_p50_ns, (protected, alone)
    assert "When its host dies" in shown


@pytest.mark.truth
def test_an_interruption_leaves_nothing_of_the_two_hosts(tmp_path: Path) -> None:
    interrupt(start_run(tmp_path, "protection", "--short"), "failover-killed")
    assert stored_run(tmp_path).manifest.state == "interrupted"
