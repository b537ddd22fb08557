"""Which run is the last: the one that was begun or resumed last and measured something, whatever the clock did."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command import Command
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.campaigns import provenance
from stealtime.store.run import find_run, moment_to_take_up, runs_in
from stealtime.store.sequence import moment_of
from stealtime.vocabulary.errors import UsageError

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1", "-P", "native", "--probe", "wakeup")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def cell(failure: str | None = None) -> SyntheticCell:
    return SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 4e5, 0.4, 2_000, failure=failure)


def make(folder: Path, taken_up_at: datetime | None, *, failure: str | None = None) -> Path:
    write_synthetic_run(folder, cells=[cell(failure)])
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text())
    document["taken_up_at"] = None if taken_up_at is None else taken_up_at.isoformat()
    manifest.write_text(json.dumps(document))
    return folder


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self, _: object = None) -> datetime:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(provenance, "datetime", clock)
    return clock


def test_the_last_run_is_by_time_and_not_by_name(tmp_path: Path) -> None:
    older = make(tmp_path / "zz-renamed", NOON)
    newer = make(tmp_path / "20261121T120100Z-x", NOON + timedelta(minutes=1))
    assert runs_in(tmp_path) == [older, newer]
    assert find_run("last", tmp_path).folder == newer


def test_a_clock_that_is_set_back_changes_no_order(stealtime: Command, tmp_path: Path, clock: Clock) -> None:
    runs = tmp_path / "data" / "stealtime" / "runs"
    for hours in (0, -24, 24 * 365, -48):
        clock.at = NOON + timedelta(hours=hours)
        assert stealtime(*SHORT).code == 0
    names = [path.name[:9] for path in runs_in(runs)]
    assert names == ["20261121T", "20261120T", "20271121T", "20261119T"]
    assert find_run("last", runs).manifest.created_at == NOON - timedelta(hours=48), "what the clock said stays"
    assert [row["created_at"][:10] for row in json.loads(stealtime("ls", "--json").out)["runs"]][-1] == "2026-11-19"


def test_a_run_that_is_resumed_becomes_the_last(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path, clock: Clock
) -> None:
    runs = tmp_path / "data" / "stealtime" / "runs"
    two = ("run", "quick", "-D", "1ms", "--repetitions", "1", "-P", "native,uml", "--probe", "wakeup")
    platforms[1].behaviour = lambda _: "refuse"
    stealtime(*two)
    first = find_run("last", runs).run_id
    clock.at = NOON - timedelta(hours=1)
    stealtime(*SHORT)
    assert find_run("last", runs).run_id != first
    platforms[1].behaviour = lambda _: "measure"
    assert stealtime("run", "--resume", first).code == 0
    assert find_run("last", runs).run_id == first


def test_a_run_that_measured_nothing_does_not_become_the_last(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    runs = tmp_path / "data" / "stealtime" / "runs"
    assert stealtime(*SHORT).code == 0
    good = find_run("last", runs).run_id
    platforms[0].behaviour = lambda _: "refuse"
    assert stealtime(*SHORT).code == 1
    assert find_run("last", runs).run_id == good
    assert len(json.loads(stealtime("ls", "--json").out)["runs"]) == 2


def test_where_nothing_was_measured_there_is_no_last_run(tmp_path: Path) -> None:
    make(tmp_path / "only", NOON, failure="the guest was gone")
    with pytest.raises(UsageError, match=r"no run in .* has measured anything; the newest is only"):
        find_run("last", tmp_path)


def test_a_damaged_run_keeps_its_place_by_when_it_was_written(tmp_path: Path) -> None:
    good, bad = make(tmp_path / "good", NOON), make(tmp_path / "bad", NOON)
    (bad / "manifest.json").write_text("{")
    assert runs_in(tmp_path) == [good, bad], "it was written now"


def test_a_run_of_an_earlier_version_counts_from_its_last_resumption(tmp_path: Path) -> None:
    run = make(tmp_path / "old", None)
    manifest = run / "manifest.json"
    begun = moment_of(manifest)
    document = json.loads(manifest.read_text())
    later = begun + timedelta(days=1)
    document["provenance"] = [{"at": begun.isoformat()}, {"at": later.isoformat()}]
    manifest.write_text(json.dumps(document))
    assert moment_of(manifest) == later
    assert moment_to_take_up(tmp_path, begun) > later
    assert moment_to_take_up(tmp_path, later + timedelta(days=1)) == later + timedelta(days=1)
