"""What others say in words: read from its file, judged by its study, and printed by ``compare --published``."""

import json
from pathlib import Path

import pytest
from command import Command, make_command
from documents import hold_against_schema
from synthetic_run import SyntheticCell, write_synthetic_run
from test_seed_claims import both

from stealtime.campaigns.listed import listed_figures
from stealtime.report.claims.statements import find_statements, statement_names
from stealtime.studies.realtime.analysis import overhead_source
from stealtime.vocabulary.errors import UsageError


@pytest.fixture
def stealtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "stealtime" / "runs" / "20261127T162422Z-rtos2013-9717"
    folder.parent.mkdir(parents=True)
    cell = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 90_000.0, 0.4, 2_000, tick_cost_ns=0.0)
    write_synthetic_run(folder, cells=[cell], campaign="rtos2013")
    return make_command(monkeypatch, capsys)


def test_each_statement_is_judged_of_each_guest(stealtime: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a run gives the study is measured by tests of its own; here it is made up, and its right answers are known.
    monkeypatch.setattr(overhead_source, "conditions_of", lambda _: both())
    ended = stealtime("compare", "last", "--published", "rtos2013", "--json")
    document = json.loads(ended.out)
    hold_against_schema(document, "statements")
    told = {one.name: one.words for one in find_statements("rtos2013").statements}
    assert {one["name"]: one["theirs"] for one in document["statements"]} == told
    assert {(one["machine"], one["verdict"]) for one in document["statements"]} == {("guest", "holds")}
    assert ended.code == 0
    printed = " ".join(stealtime("compare", "last", "--published", "rtos2013").out.split())
    assert "scheduling does not depend on the number of tasks" in printed
    assert "1.50 to 1.50 times the native one" in printed


def test_a_run_without_guests_is_not_judged(stealtime: Command) -> None:
    ended = stealtime("compare", "last", "--published", "rtos2013")
    assert ended.code == 4
    assert "no guest that was measured alone beside native" in " ".join(ended.out.split())


def test_they_are_found_and_listed_with_the_figures(stealtime: Command) -> None:
    assert statement_names() == ["guest-disk-times", "rtos2013"]
    assert "rtos2013" in [one.name for one in listed_figures()]
    with pytest.raises(UsageError):
        find_statements("hyperv2013")
    ended = stealtime("compare", "last", "--published", "rtos2031")
    assert (ended.code, "did you mean 'rtos2013'?" in ended.err) == (2, True)
