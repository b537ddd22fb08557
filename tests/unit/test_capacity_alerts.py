"""Alerts, dashboard and unit of the exporter, judged by Prometheus' own promtool and by systemd."""

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

EXPORTER = resources.files("stealtime.capacity.exporter")
ALERTS = (EXPORTER / "alerts.yml").read_text("utf-8")
UNIT = (EXPORTER / "stealtime-exporter.service").read_text("utf-8")
CASES = Path(__file__).parents[1] / "prometheus/capacity_alerts.yml"
NAMES = re.findall(r"^ +- alert: (\w+)$", ALERTS, re.MULTILINE)
EXPOSURE_MAX = 3.0
"""Of 10, as ``systemd-analyze security`` of systemd 252 counts."""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"the program {name} is not installed")
    return found


def test_promtool_finds_each_alert_where_it_should_be_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(ALERTS)
    cases = tmp_path / "cases.yml"
    cases.write_text(f"rule_files: [alerts.yml]\n{CASES.read_text('utf-8')}")
    done = subprocess.run([program("promtool"), "test", "rules", cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [program("promtool"), "check", "rules", tmp_path / "alerts.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    fired = re.findall(r"alertname: (\w+)\n +exp_alerts:", CASES.read_text("utf-8"))
    assert len(NAMES) > 5
    assert set(fired) == set(NAMES)


def dashboard() -> Any:
    return json.loads((EXPORTER / "grafana.json").read_text("utf-8"))


def test_each_panel_of_the_dashboard_is_told_apart_by_host_and_explains_what_it_shows() -> None:
    board = dashboard()
    assert {one["name"] for one in board["templating"]["list"]} == {"datasource", "instance", "guest"}
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert '$instance"' in target["expr"], panel["title"]
            assert target["legendFormat"], panel["title"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_the_unit_is_as_closed_as_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "stealtime-exporter.service"
    path.write_text(UNIT.replace("@STEALTIME@", "/bin/true"))
    done = subprocess.run(
        [program("systemd-analyze"), "security", "--offline=true", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert path.name not in done.stderr, "a key that systemd does not know"
    assert float(found[1]) <= EXPOSURE_MAX, done.stdout
