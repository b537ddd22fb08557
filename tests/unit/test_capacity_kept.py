"""A day of verdicts: what is kept, how it is bounded, and what is read from it."""

import json
from pathlib import Path

import pytest
from command import Command, make_command

from stealtime.capacity.exporter.history import make_history
from stealtime.capacity.exporter.kept import CURRENT, SEGMENT_S, Keeper, Line, drop, pack, read_kept
from stealtime.vocabulary.errors import StealtimeError

NOON_S = 1_795_694_400
"""2026-11-26 12:00 UTC."""


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def line(minute: int, verdict: str = "efficiently provisioned", *, name: str = "", wait_s: float = 0.0) -> Line:
    is_host = not name
    return Line(
        at_s=NOON_S + 60 * (minute + 1),
        elapsed_s=60.0,
        guest=name,
        name=name,
        uuid="" if is_host else f"uuid of {name}",
        verdict=verdict,
        rule="",
        run_s=0.0 if is_host else 30.0,
        wait_s=wait_s,
        watched_seconds=0 if is_host else 60,
        crowded_seconds=round(wait_s),
    )


def test_what_was_kept_is_read_again_packed_or_not(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "kept")
    minutes = [[line(minute), line(minute, name="web")] for minute in range(SEGMENT_S // 60 + 5)]
    for lines in minutes:
        keeper.add(lines)
    keeper.close()
    assert sorted(path.suffix for path in (tmp_path / "kept").iterdir()) == [".jsonl", ".parquet"]
    kept = read_kept(tmp_path / "kept", 0)
    assert kept == sorted(one for lines in minutes for one in lines)
    assert read_kept(tmp_path / "kept", kept[-1].at_s) == kept[-2:]


def test_a_restart_goes_on_and_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    Keeper(tmp_path).add([line(0)])
    with (tmp_path / CURRENT).open("a") as file:
        file.write('[17, 60.0, "web')
    again = Keeper(tmp_path)
    again.add([line(1)])
    again.close()
    assert read_kept(tmp_path, 0) == [line(0), line(1)]


def test_the_ring_is_bounded_in_time_and_size(tmp_path: Path) -> None:
    for hour in range(30):
        (tmp_path / f"{NOON_S + 3600 * hour}.parquet").write_bytes(b"x" * 1000)
    drop(tmp_path)
    assert len(list(tmp_path.iterdir())) == 26
    drop(tmp_path, most_bytes=10_500)
    names = sorted(path.stem for path in tmp_path.iterdir())
    assert names == [str(NOON_S + 3600 * hour) for hour in range(20, 30)]


def test_packing_leaves_the_lines_that_are_being_written(tmp_path: Path) -> None:
    (tmp_path / CURRENT).write_text(json.dumps(line(0)))
    pack(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [CURRENT]


def test_a_day_says_for_how_long_each_verdict_held_and_when_it_was_worst() -> None:
    lines = []
    for minute in range(120):
        is_bad = 60 <= minute < 90
        verdict = "over-committed host" if is_bad else "efficiently provisioned"
        lines += [line(minute, verdict), line(minute, verdict, name="web", wait_s=30.0 if is_bad else 0.0)]
        lines.append(line(minute, name="calm"))
    document = make_history(lines, "node1")
    host, web, calm = document.subjects
    assert (host.kind, web.name, calm.name) == ("host", "web", "calm")
    assert document.watched_s == 7200
    assert web.verdict_percent == {"efficiently provisioned": 75.0, "over-committed host": 25.0}
    assert web.stretch == pytest.approx((120 * 30 + 30 * 30) / (120 * 30))
    assert web.crowded_percent == pytest.approx(100 * 30 * 30 / 7200)
    assert web.worst_hour is not None
    assert (web.worst_hour.isoformat(), web.worst_hour_percent) == ("2026-11-26T13:00:00+00:00", 50.0)
    assert calm.worst_hour is None
    assert host.stretch is None


def test_a_guest_that_was_started_anew_is_the_same_by_its_uuid() -> None:
    again = line(1, name="web")._replace(guest="web-77")
    assert [one.watched_s for one in make_history([line(0, name="web"), again], "node1").subjects] == [120.0]


def test_history_of_a_folder_with_nothing_in_it_is_one_sentence_and_a_hint(stealtime: Command, tmp_path: Path) -> None:
    ended = stealtime("advise", "--history", str(tmp_path))
    assert (ended.code, ended.out) == (1, "")
    assert "nothing was kept there in that time" in ended.err
    assert "hint: name the folder of" in ended.err


def test_history_is_a_table_and_a_document(stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOON_S + 600.0)
    keeper = Keeper(tmp_path)
    keeper.add([line(0, "over-committed host"), line(0, "over-committed host", name="w[red]\x1b[1m", wait_s=30.0)])
    keeper.close()
    ended = stealtime("advise", "--history", str(tmp_path), "--last", "1h")
    assert ended.code == 0
    assert r"w[red]\x1b[1m" in ended.out
    assert "100 %" in ended.out
    document = json.loads(stealtime("advise", "--history", str(tmp_path), "--json").out)
    assert document["subjects"][1]["stretch"] == 2.0


def test_a_damaged_file_and_a_folder_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"not parquet")
    with pytest.raises(StealtimeError, match="is damaged"):
        read_kept(tmp_path, 0)
    (tmp_path / "file").write_text("")
    with pytest.raises(StealtimeError, match="verdicts cannot be kept there"):
        Keeper(tmp_path / "file")
