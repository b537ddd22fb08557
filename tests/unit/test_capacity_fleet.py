"""Many hosts in one table: ``stealtime advise --from A.json B.json``."""

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from command import Command, make_command
from synthetic_use import guest, use

from stealtime.capacity.advice import advise
from stealtime.capacity.document import Watched, make_document
from stealtime.capacity.guests.identity import Identity
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Use
from stealtime.schemas import DOCUMENTS

EVIL = "[bold]w\x1b[2J\nhost9"
"""A guest or a host may be called so; it is neither markup, nor a command to the terminal, nor another line."""


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def write(folder: Path, host_name: str, seen: Use) -> Path:
    host, guests = judge([seen] * 20, load_rules())
    of_host, of_guests = advise([seen] * 20, host, guests)
    watched = Watched(host_name, datetime(2026, 11, 27, 12, tzinfo=UTC), 20.0, "the builtin rules")
    known = {one.guest.key: Identity(one.guest.name, "u1") for one in seen.guests.values()}
    document = make_document(of_host, of_guests, watched, hypervisors={}, identities=known)
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(document.model_dump_json())
    return path


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> list[str]:
    crowded = use([guest(EVIL, run=[50.0], wait=[50.0], cpus=[0]), guest("calm")], busy=(100.0, 50.0))
    return [str(write(tmp_path, "node1", use([guest("calm")]))), str(write(tmp_path, EVIL, crowded))]


def test_the_worst_host_stands_first_and_names_are_only_names(stealtime: Command, files: list[str]) -> None:
    ended = stealtime("advise", "--from", *files)
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0] == "2 hosts, 1 over-committed; 3 guests"
    assert lines[3].startswith(r"[bold]w\x1b[2J\nhost9")
    assert lines[3].split()[1:7] == ["over-committed", "host", "2", "1", "0", "0"]
    assert lines[4].startswith("node1")
    assert "\x1b" not in ended.out


def test_a_verdict_to_fail_on_is_looked_for_on_all_hosts(stealtime: Command, files: list[str]) -> None:
    assert stealtime("advise", "--fail-on", "over-committed", "--from", *files).code == 3
    assert stealtime("advise", "--fail-on", "over-committed", "--from", files[0]).code == 0
    assert stealtime("advise", "--fail-on", "over-provisioned", "--from", files[0]).code == 3


def test_the_document_has_a_schema(stealtime: Command, files: list[str]) -> None:
    document = json.loads(stealtime("advise", "--json", "--from", *files).out)
    jsonschema.validate(document, DOCUMENTS["advise-from"].schema())
    assert [one["host_name"] for one in document["hosts"]] == [EVIL, "node1"]
    assert document["hosts"][0]["worst_guest"] == EVIL


def test_a_document_says_which_host_when_and_which_uuid(files: list[str]) -> None:
    written = json.loads(Path(files[0]).read_text())
    assert (written["host_name"], written["ended_at"]) == ("node1", "2026-11-27T12:00:00Z")
    assert written["guests"][0]["identity"] == {"name": "calm", "uuid": "u1", "manager": None, "manager_id": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "it cannot be read: No such file or directory"), ("{", "it is no document of `advise`"),
     ("{}", r"it is no document of `advise`: Field required \(schema_version\)")],
)  # fmt: skip
def test_a_file_that_is_none_is_said(stealtime: Command, tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)
    ended = stealtime("advise", "--from", str(path))
    assert (ended.code, ended.out) == (2, "")
    assert message.replace("\\", "") in " ".join(ended.err.split())
    assert "hint: name files that `stealtime advise --json` has written" in ended.err


def test_a_newer_document_is_not_guessed_at(stealtime: Command, files: list[str]) -> None:
    written = json.loads(Path(files[0]).read_text())
    Path(files[0]).write_text(json.dumps({**written, "schema_version": 99}))
    assert "its schema_version is 99" in stealtime("advise", "--from", files[0]).err


@pytest.mark.parametrize("arguments", [["a.json"], ["--from", "a.json", "--history", "b"]])
def test_what_does_not_go_together_is_refused(stealtime: Command, arguments: list[str]) -> None:
    assert stealtime("advise", *arguments).code == 2
