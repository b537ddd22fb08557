"""What fails at the end of a run takes nothing with it that was there before: figures, verdict, JUnit, exit code."""

import asyncio
import errno
import os
import re
import resource
import shlex
from pathlib import Path

import pytest
from command import Command
from junitparser import JUnitXml
from synthetic_run import write_synthetic_run

from stealtime.campaigns.runner import Runner
from stealtime.campaigns.session import InterruptedRunError
from stealtime.report.page import html
from stealtime.store.writer import DiskError, RunWriter

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")


def runs_of(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "data" / "stealtime" / "runs").iterdir())


def full_disk(*_: object, **__: object) -> object:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("gate", "code"), [((), 1), (("--max-overhead", "2s"), 3)])
def test_a_report_that_cannot_be_written_takes_no_figure_and_no_verdict(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: tuple[str, ...], code: int
) -> None:
    monkeypatch.setattr("tempfile.NamedTemporaryFile", full_disk)
    junit = tmp_path / "cells.xml"
    ended = stealtime(*SHORT, "--junit", str(junit), *gate)
    assert ended.code == code, "a verdict counts before what failed after it"
    assert "One in a thousand" in ended.out
    assert JUnitXml.fromfile(str(junit)).tests == 18
    assert ("over --max-overhead" in ended.err) == bool(gate)
    assert "error: the report was not written: " in ended.err
    assert "No space left on device" in ended.err
    hint = re.search(r"hint: write it to another place with `stealtime (report \S+ -o) FILE`", ended.err)
    assert hint is not None, ended.err
    assert "report  " not in ended.out


def test_the_hint_of_a_report_that_was_not_written_works(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as once:
        once.setattr("tempfile.NamedTemporaryFile", full_disk)
        err = stealtime(*SHORT, "--runs", str(tmp_path / "my runs")).err
    command = re.search(r"`stealtime (report .*) FILE`", err)
    assert command is not None, err
    ended = stealtime(*shlex.split(command[1]), str(tmp_path / "r.html"))
    assert ended.code == 0, ended.err
    assert (tmp_path / "r.html").stat().st_size > 100_000


def test_a_junit_file_that_cannot_be_written_keeps_no_report_back(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junit = tmp_path / "closed" / "cells.xml"
    junit.parent.mkdir()
    monkeypatch.setattr("junitparser.JUnitXml.write", full_disk)
    ended = stealtime(*SHORT, "--junit", str(junit))
    assert ended.code == 1
    assert f"error: --junit {junit} cannot be written: No space left on device" in ended.err
    assert (runs_of(tmp_path)[0] / "report.html").exists()


def test_figures_and_verdict_stay_when_the_disk_is_full_at_the_last_note(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = RunWriter.update

    def full_at_the_end(writer: RunWriter, **changes: object) -> None:
        if changes.get("state") == "finished":
            raise DiskError("the manifest cannot be written: No space left on device", hint="free some space")
        update(writer, **changes)

    monkeypatch.setattr(RunWriter, "update", full_at_the_end)
    junit = tmp_path / "cells.xml"
    ended = stealtime(*SHORT, "--junit", str(junit), "--max-overhead", "2s")
    assert ended.code == 3, ended.err
    assert "One in a thousand" in ended.out
    assert JUnitXml.fromfile(str(junit)).failures == 12
    assert "error: the manifest cannot be written: No space left on device" in ended.err
    assert f"go on with `stealtime run --resume {runs_of(tmp_path)[0].name}`" in ended.err


def test_a_disk_that_is_full_in_the_middle_still_shows_what_was_measured(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RunWriter.write_trial
    written: list[Path] = []

    def full_after_three(writer: RunWriter, *arguments: object) -> Path:
        if len(written) == 3:
            raise DiskError("the cell cannot be written: No space left on device", hint="free some space")
        written.append(write(writer, *arguments))  # type: ignore[arg-type]
        return written[-1]

    monkeypatch.setattr(RunWriter, "write_trial", full_after_three)
    ended = stealtime(*SHORT)
    assert ended.code == 1
    assert "native" in ended.out
    assert "error: the cell cannot be written: No space left on device" in ended.err


def test_an_interruption_while_the_report_is_drawn_names_the_run_and_keeps_the_verdict(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(html, "write_report", interrupted)
    junit = tmp_path / "cells.xml"
    ended = stealtime(*SHORT, "--junit", str(junit))
    assert JUnitXml.fromfile(str(junit)).tests == 18, "it is written before what takes longest"
    name = runs_of(tmp_path)[0].name
    assert ended.code == 1
    assert "One in a thousand" in ended.out
    assert "error: interrupted; the run itself is complete" in ended.err
    assert f"hint: see it with `stealtime show {name}`, or `stealtime report {name}`" in ended.err
    assert stealtime(*SHORT, "--max-overhead", "2s").code == 3


def test_an_interrupted_run_says_its_name_to_go_on_with(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(_: Runner) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(Runner, "run", cancelled)
    ended = stealtime(*SHORT)
    assert ended.code == 1
    assert "error: interrupted; what was measured is kept" in ended.err
    assert f"hint: continue with `stealtime run --resume {runs_of(tmp_path)[0].name}`" in ended.err
    assert InterruptedRunError("x").exit_code == 1


def test_an_export_without_room_keeps_what_is_whole_and_leaves_no_half_file(stealtime: Command, tmp_path: Path) -> None:
    write_synthetic_run(tmp_path / "runs" / "20261121T195500Z-made-3f2a")
    folder = tmp_path / "csv"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        ended = stealtime("export", "last", "--runs", str(tmp_path / "runs"), "--csv", str(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ended.code == 1, ended.out
    assert "cannot be written: File too large; the summary and" in ended.err
    assert "hint: choose another folder with --csv" in ended.err
    assert "summary.csv" in [path.name for path in folder.iterdir()]
    assert all(path.stat().st_size < 100_000 for path in folder.iterdir()), "a file that is cut off looks whole"
