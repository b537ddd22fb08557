"""Truths are due when something that they judge has changed since they passed, and only then."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import truth_record

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/truth.toml").write_text('[guest]\npaths = ["probe", "rigs"]\n')
    for name in ("probe", "rigs", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("as it was")
    _git(tmp_path, "init", "--quiet")
    _commit(tmp_path)
    return tmp_path


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments], cwd=folder, check=True
    )


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message=test")


def test_what_never_passed_is_due(repository: Path) -> None:
    assert truth_record.changed_paths("guest", repository) == ["probe", "rigs"]


def test_what_passed_is_due_again_only_when_a_judged_path_changes(repository: Path) -> None:
    truth_record.note("guest", 23, root=repository)
    (repository / "other/file").write_text("changed")
    _commit(repository)
    assert truth_record.changed_paths("guest", repository) == []
    (repository / "probe/file").write_text("changed")
    _commit(repository)
    assert truth_record.changed_paths("guest", repository) == ["probe"]


def test_what_passed_only_again_is_named(repository: Path) -> None:
    truth_record.note("guest", 23, ["tests/guest/test_b.py::test_two", "tests/guest/test_a.py::test_one"], repository)
    record = json.loads((repository / "tests/truth_record.json").read_text())
    assert record["guest"]["passed_again"] == ["tests/guest/test_a.py::test_one", "tests/guest/test_b.py::test_two"]


def test_how_long_a_ring_took_is_known_once_it_has_passed(repository: Path) -> None:
    assert truth_record.minutes("guest", repository) == 0
    truth_record.note("guest", 23, root=repository)
    assert truth_record.minutes("guest", repository) == 23


def test_a_path_that_is_gone_is_due(repository: Path) -> None:
    _git(repository, "rm", "-r", "--quiet", "rigs")
    _commit(repository)
    truth_record.note("guest", 23, root=repository)
    assert truth_record.changed_paths("guest", repository) == ["rigs"]


def test_what_is_not_committed_is_not_noted(repository: Path) -> None:
    (repository / "probe/file").write_text("changed")
    with pytest.raises(truth_record.UncommittedChangeError, match="probe/file"):
        truth_record.note("guest", 23, root=repository)


def test_every_judged_path_is_there() -> None:
    judged = tomllib.loads((REPOSITORY / "tests/truth.toml").read_text("utf-8"))
    missing = [path for entry in judged.values() for path in entry["paths"] if not (REPOSITORY / path).exists()]
    assert missing == []
    assert [ring for ring in judged if not (REPOSITORY / "tests" / ring).is_dir()] == []
