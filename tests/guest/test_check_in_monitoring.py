"""The check in Nagios, Icinga, node-problem-detector and Slurm as they are, with the files of ``contrib``.

A known disturbance goes on meanwhile.
"""

import shutil
from pathlib import Path

import pytest
from icinga_daemon import await_event, icinga, unpack_icinga
from known_stalls import known_stalls
from nagios_daemon import await_service, nagios
from node_problem_detector import PROGRAM, node_problem_detector
from slurm_node import slurm
from traced_cpu import traced_cpu

from stealtime.lab.platforms.agent_binary import find_agent

pytestmark = [pytest.mark.guest, pytest.mark.traced]

CONTRIB = Path(__file__).parents[2] / "contrib"
CPU = traced_cpu()
STALL_NS = 90_000_000
BAR = "60ms"
"""Between what this machine does by itself and what is injected."""


def test_nagios_shows_a_disturbance_with_its_cause(tmp_path: Path) -> None:
    written = (CONTRIB / "nagios/stealtime.cfg").read_text()
    services = written.replace("/usr/local/bin/stealtime-agent", str(find_agent()))
    services = services.replace("--duration 10s", "--duration 2s").replace("!1ms", f"!{BAR}")
    assert all(one in services for one in (f"{find_agent()} check --format nagios", "--duration 2s", BAR))
    with known_stalls([CPU], STALL_NS), nagios(tmp_path / "nagios", services) as status:
        found = await_service(status, within_s=40)
    assert found["current_state"] == "2", found
    assert found["plugin_output"].startswith("STEALTIME CRITICAL - "), found
    assert "preempted by python" in found["plugin_output"], found
    assert found["performance_data"].startswith("max="), found
    assert "hint: " in found["long_plugin_output"], found


@pytest.mark.truth
def test_icinga_shows_a_disturbance_with_its_cause(tmp_path: Path) -> None:
    written = (CONTRIB / "icinga2/stealtime.conf").read_text()
    services = written.replace('"/usr/bin/sudo", "-n", "/usr/local/bin/stealtime-agent"', f'"{find_agent()}"')
    # The first check comes at some moment of the first interval, and the disturbance goes on for 20 s.
    services = services.replace("check_interval = 10m", "check_interval = 5s")
    assert all(one in services for one in (f'"{find_agent()}"', "check_interval = 5s"))
    host = {"stealtime_bar": BAR, "stealtime_duration": "2s", "stealtime_cpus": str(CPU)}
    unpack_icinga(tmp_path / "unpacked")
    folder = tmp_path / "icinga"
    folder.mkdir()
    with known_stalls([CPU], STALL_NS), icinga(tmp_path / "unpacked", folder, services, host):
        found = await_event(folder, within_s=60)
    assert found["STATE"] == "CRITICAL", found
    assert found["OUTPUT"].startswith("STEALTIME CRITICAL - "), found
    assert "preempted by python" in found["OUTPUT"], found
    assert "hint: " in found["OUTPUT"], found
    assert found["PERFORMANCE"].startswith("max="), found


@pytest.mark.truth
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"the program {PROGRAM} is not installed")
def test_node_problem_detector_sets_its_condition_with_the_cause(tmp_path: Path) -> None:
    written = (CONTRIB / "node-problem-detector/stealtime.json").read_text()
    plugin = written.replace("/usr/local/bin/stealtime-agent", str(find_agent()))
    plugin = plugin.replace('"1ms", "--duration", "10s"', f'"{BAR}", "--duration", "2s"')
    assert all(one in plugin for one in (str(find_agent()), BAR))
    with known_stalls([CPU], STALL_NS), node_problem_detector(tmp_path, plugin) as detector:
        told = detector.await_condition("LateWakeups", "WakeupsLate", within_s=30)
    assert "Status:True" in told, told
    assert "preempted by python" in told, told


@pytest.mark.truth
def test_slurm_drains_a_disturbed_node_and_takes_it_back(tmp_path: Path) -> None:
    # slurmd gives a health check no PATH: all that it needs is named in its settings.
    settings = tmp_path / "settings"
    lines = {"STEALTIME_AGENT": find_agent(), "STEALTIME_BAR": BAR, "STEALTIME_DURATION": "2s"}
    lines |= {"STEALTIME_RESUME": "yes", "SLURM_CONF": tmp_path / "slurm/slurm.conf"}
    settings.write_text("".join(f"export {name}={value}\n" for name, value in lines.items()))
    program = tmp_path / "health-check"
    program.write_text(f"#!/bin/sh\nSTEALTIME_SETTINGS={settings} exec {CONTRIB / 'slurm/stealtime-health-check'}\n")
    program.chmod(0o755)
    assert shutil.which("slurmd")
    with slurm(tmp_path / "slurm", program, every_s=4) as cluster:
        assert cluster.await_state("IDLE", within_s=30) == ""
        with known_stalls([CPU], STALL_NS):
            reason = cluster.await_state("IDLE+DRAIN", within_s=30)
        assert reason.startswith("stealtime: CRITICAL: "), reason
        assert "preempted by python" in reason, reason
        assert cluster.await_state("IDLE", within_s=40) == ""
