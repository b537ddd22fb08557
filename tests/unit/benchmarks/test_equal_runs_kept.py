"""Which kept runs ``equal_runs.py`` takes for runs of the same code."""

import json
from pathlib import Path

import pytest
from equality import series
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.vocabulary.readings import Value


def write_run(folder: Path, describe: str) -> Path:
    cell = SyntheticCell("native", "switch", {"threads": 2}, 180.0, 90_000.0, 0.5, 100)
    path = write_synthetic_run(folder, cells=[cell]).folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"git_describe": {"value": describe}}))
    return folder


@pytest.mark.parametrize(("describe", "taken"), [("v0.1.0-4-gabcdef0", 2), ("v0.1.0-4-gabcdef0-dirty", 1)])
def test_kept_runs_of_a_changed_work_tree_are_left_out(
    describe: str, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "read_git_describe", lambda: Value(value=describe))
    kept = [write_run(tmp_path / "1", describe), write_run(tmp_path / "2", "v0.1.0")]
    measured_now = write_run(tmp_path / "3", describe)
    runs, others = series.Series(tmp_path, "").finished(frozenset(kept))
    assert [run.folder for run in runs] == [kept[0], measured_now][-taken:]
    assert others == 3 - taken
