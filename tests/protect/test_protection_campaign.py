"""The builtin campaign `protection` for real: two hosts, both blows, and what the clients saw."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from protect_command import STEALTIME

from stealtime.protect.laboratory_network import NAMESPACES, PREFIX
from stealtime.store.run import Run, runs_in
from stealtime.studies.protection.results import Failover, RoundTrips

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

ENDS_WITHIN_S = 30


def start(folder: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    argv = [str(STEALTIME), "run", "protection", "--short"]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def the_run(folder: Path) -> Run:
    (run,) = runs_in(folder / "stealtime/runs")
    return Run.open(run)


def namespaces_of(process: "subprocess.Popen[str]") -> set[str]:
    return {entry.name for entry in NAMESPACES.glob(f"{PREFIX}*:{process.pid}:*")}


def test_a_host_dies_in_both_ways_and_the_client_loses_nothing(tmp_path: Path) -> None:
    running = start(tmp_path)
    shown, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    trials = {trial.record.cell.measurement: trial for trial in the_run(tmp_path).measured}
    assert len(trials) == 4
    for blow in ("killed", "silent"):
        seen = trials[f"failover-{blow}-100ms-net"].result(Failover)
        assert (seen.violations, seen.tcp_lived, seen.pages_wrong) == ({}, True, 0)
        assert seen.acknowledged > 0
        assert 0 < seen.decision_to_running_ns < seen.blow_to_running_ns
        # What the client waited for is at least as long as nobody ran.
        assert seen.blow_to_running_ns < min(seen.silence_tcp_ns, seen.silence_udp_ns)
        assert seen.checkpoints is not None
        assert seen.checkpoints.shipped_bytes > 0
    protected = trials["roundtrip-100ms-net"].result(RoundTrips)
    alone = trials["roundtrip-off"].result(RoundTrips)
    assert alone.checkpoints is None
    # Each answer is held until its checkpoint is acknowledged, 100 ms apart.
    assert protected.tcp_p50_ns > alone.tcp_p50_ns
    assert "When its host dies" in shown


def test_an_interruption_leaves_nothing_of_the_two_hosts(tmp_path: Path) -> None:
    running = start(tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if "failover-killed" in line:
            break
    assert namespaces_of(running)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=ENDS_WITHIN_S)
    assert not namespaces_of(running)
    assert the_run(tmp_path).manifest.state == "interrupted"
