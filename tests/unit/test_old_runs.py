"""Runs that older versions have written are read, shown, drawn, exported and compared (``tests/golden/runs``)."""

import json
import subprocess
from pathlib import Path

import pytest
from command import Command, make_command

from stealtime.store.durations import Durations
from stealtime.store.model import SCHEMA_VERSION
from stealtime.store.run import Run, find_run
from stealtime.store.upgrade import upgrade
from stealtime.vocabulary.readings import Absent

STORED = Path(__file__).parents[1] / "golden" / "runs"
VERSIONS = range(1, SCHEMA_VERSION)


def unpacked(version: int, folder: Path) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    # Debian 12's tarfile knows no filters yet, without which newer ones warn.
    subprocess.run(["tar", "-xf", STORED / f"schema-{version}.tar.xz", "-C", folder], check=True)
    run = find_run("last", folder)
    assert json.loads((run.folder / "manifest.json").read_text())["schema_version"] == version
    return run


@pytest.fixture
def stealtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return make_command(monkeypatch, capsys)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_run_is_read_as_one_of_this_version(version: int, tmp_path: Path) -> None:
    run = unpacked(version, tmp_path)
    run.check_tables()
    assert {*run.manifest.hosts, *(trial.record.host for trial in run.trials)} == {"local"}
    versions = {run.manifest.schema_version, *(trial.record.schema_version for trial in run.trials)}
    assert versions == {SCHEMA_VERSION}
    layouts = {trial.record.cell.probe: trial.result(Durations).layout.name for trial in run.measured}
    assert layouts == {"tick": "tiled", "switch": "gapped", "wakeup": "periodic"}
    for trial in run.measured:
        assert trial.record.outcome is not None
        assert trial.record.outcome.request.cpus == trial.record.outcome.placement.cpus == [0]
        assert trial.result(Durations).calibrated_floor_units == 200
    [failed] = [trial for trial in run.trials if trial.record.state == "failed"]
    assert (failed.record.result, failed.record.cell.traced) == (None, False)
    # Version 2 did not tell resumptions, and the writer of 3 was asked for a run without any.
    begun = run.manifest.provenance
    assert [(one.at, one.hosts) for one in begun] == [(run.manifest.created_at, run.manifest.hosts)] * (version < 3)
    assert all(isinstance(one.agent_sha256, Absent) for one in begun)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_run_is_shown_drawn_exported_and_compared(version: int, tmp_path: Path, stealtime: Command) -> None:
    runs = tmp_path / "stealtime" / "runs"
    run = unpacked(version, runs)
    shown = json.loads(stealtime("show", "last", "--json").out)
    # Of the 1000 samples of a trial one is 2.5 s, the others 100 to 103 ns.
    measured = [cell["stats"] for cell in shown["cells"] if cell["stats"] is not None]
    assert [(stats["count"], stats["floor_ns"], stats["max_ns"]) for stats in measured] == [(1000, 100.0, 2.5e9)] * 5
    assert "the agent of uml failed" in stealtime("show", "last").out
    assert stealtime("report", "last", "-o", str(tmp_path / "page.html")).code == 0
    assert 'id="answer"' in (tmp_path / "page.html").read_text()
    assert stealtime("export", "last", "--csv", str(tmp_path / "csv")).code == 0
    assert len((tmp_path / "csv" / "native.alone.switch-2.r1.csv").read_text().splitlines()) == 1001
    newest = unpacked(SCHEMA_VERSION - 1, tmp_path / "newest")
    compared = json.loads(stealtime("compare", str(run.folder), str(newest.folder), "--json").out)
    statistics = [one for cell in compared["cells"] for one in cell["statistics"]]
    assert (len(compared["cells"]), compared["only_in_a"], compared["only_in_b"]) == (6, [], [])
    # Durations and rates, each under its own name.
    pairs = [(one[name], one[f"b_{name.removeprefix('a_')}"]) for one in statistics for name in one if name[:2] == "a_"]
    assert len(pairs) >= len(statistics)
    assert all(first == second for first, second in pairs)


def test_keys_that_studies_had_before_are_read_by_their_names_of_now() -> None:
    trial = {"cell": {"parameters": {"blow": "silent"}}, "result": {"blow_to_running_ns": 5, "lapses": 1}}  # old name
    assert upgrade(trial) == {
        "cell": {"parameters": {"fault": "silent"}},
        "result": {"fault_to_running_ns": 5, "retries": 1},
    }
    probes = [{"probe": "failover", "blow": ["killed"]}, {"probe": "tick"}]  # old name
    manifest = {"planned": [{"parameters": {"blow": "killed"}}], "campaign": {"probes": probes}}  # old name
    assert upgrade(manifest) == {
        "planned": [{"parameters": {"fault": "killed"}}],
        "campaign": {"probes": [{"probe": "failover", "fault": ["killed"]}, {"probe": "tick"}]},
    }
