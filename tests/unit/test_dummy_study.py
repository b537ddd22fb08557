"""A new study is a folder and its registration: nothing else is touched, from the plan to the comparison."""

import csv
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import Command
from dummy_study.results import EchoFigures
from dummy_study.stored import Echoes
from dummy_study.study import STUDY
from measured_campaign import campaign_cells
from scripted_agent import ScriptedPlatform

from stealtime.campaigns import registry
from stealtime.cli import completion
from stealtime.report import notation
from stealtime.report.page.html import write_report
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run, find_run
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.vocabulary.errors import StealtimeError

MIXED = """
name = "mixed"
platforms = ["native"]
[[probes]]
probe = "tick"
duration = "1ms"
[[probes]]
probe = "echo"
duration = "1ms"
shouts = [3]
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with registry.added(STUDY):
        yield


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "data/stealtime/runs"


def test_it_is_planned_run_stored_and_shown(
    stealtime: Command, platforms: list[ScriptedPlatform], runs: Path, tmp_path: Path
) -> None:
    planned = stealtime("run", "canyon", "--dry-run")
    assert (planned.code, "8 cells" in planned.out) == (0, True), planned.err
    ended = stealtime("run", "canyon", "--junit", str(tmp_path / "cells.xml"))
    assert ended.code == 0, ended.err
    assert {trial.probe.name for trial in platforms[0].trials} == {"wakeup"}
    stored = find_run("last", runs)
    assert {trial.record.trial_id for trial in stored.trials} == {
        f"{platform}.alone.echo-{shouts}.r{repetition}"
        for platform in ("native", "uml") for shouts in (3, 12) for repetition in (1, 2)
    }  # fmt: skip
    for trial in stored.trials:
        assert {path.name for path in trial.folder.glob("*.parquet")} == {"loudness.parquet"}
        assert pq.read_metadata(trial.table("loudness")).num_rows == trial.result(Echoes).came_back == 1000
    stored.trials[0].table("loudness").unlink()
    with pytest.raises(StealtimeError, match=r"loudness\.parquet"):
        stored.check_tables()
    assert "echoes 2000" in (tmp_path / "cells.xml").read_text()
    shutil.copy(stored.trials[1].table("loudness"), stored.trials[0].table("loudness"))
    shown = stealtime("show")
    assert [line.split() for line in shown.out.splitlines() if " echo " in line] == [
        [platform, "echo", shouts, "2000"] for platform in ("native", "uml") for shouts in ("3", "12")
    ]
    assert "8 trials echoed for want of a reply" in shown.out
    assert "over the floor" not in shown.out
    assert "Clock of the samples beside the host's" in shown.out


def test_it_is_held_against_what_others_claim(stealtime: Command) -> None:
    assert stealtime("run", "canyon", "--repetitions", "4").code == 0
    compared = stealtime("compare", "last", "--published", "metamorphoses")
    assert compared.code == 0, compared.err
    plain = compared.out.replace("\N{MULTIPLICATION SIGN}", "x").replace(notation.ABSENT, "-")
    lines = [" ".join(line.split()) for line in plain.splitlines()]
    told = [line for line in lines if line.startswith(("alone ", "echo, ", "all "))]
    assert told == [
        "alone echo, 3 shouts nymph 1,000 1,000 agrees",
        "alone echo, 12 shouts nymph 2,000 1,000 disagrees",
        "alone echo, 3 shouts 1.00x 1.00x agrees",
        "alone echo, 12 shouts 2.00x 1.00x disagrees",
        "echo, 3 shouts 1.00x 1 1.00x 1.00x 1 agrees",
        "echo, 12 shouts 2.00x 1 2.00x 1.00x 1 disagrees",
        "all 1.41x 2 1.41x 1.00x 2 disagrees",
    ]
    assert "Of 7 ratios 3 agree with the paper's, 4 disagree, 0 could not be judged." in compared.out
    document = json.loads(stealtime("compare", "last", "--published", "metamorphoses", "--json").out)
    claims = document["groups"][0]["claims"]
    assert (document["unit"], claims[1]["source"], claims[1]["judgement"]["theirs"]) == ("count", "III 501", 2000)
    assert "III 380: what came back" in stealtime("show", "--paper-tables").out
    assert "III 380" not in stealtime("show").out
    assert completion.published("meta") == ["metamorphoses"]


def test_it_has_a_section_of_the_page(stealtime: Command, runs: Path) -> None:
    assert stealtime("run", "canyon").code == 0
    page = (find_run("last", runs).folder / "report.html").read_text()
    assert '<a href="#echoes">Echoes</a>' in page
    assert "<h1>What comes back?</h1>" in page
    assert "8000 came back." in page
    assert page.index('id="echoes"') < page.index('id="limits"') < page.index('id="environment"')
    assert "no echo at all" in page
    assert 'id="answer"' not in page


def test_what_failed_or_was_limited_stands_on_the_page_whatever_its_study(
    stealtime: Command, platforms: list[ScriptedPlatform], runs: Path
) -> None:
    platforms[1].behaviour = lambda _: "refuse"
    assert stealtime("run", "canyon", "--short").code == 4
    page = (find_run("last", runs).folder / "report.html").read_text()
    limits = page[page.index('id="limits"') : page.index('id="environment"')]
    assert "uml.alone.echo-3.r1</b>: the agent of uml failed" in limits
    assert "the agent of uml failed" in stealtime("show").out


def test_two_runs_of_it_are_compared(stealtime: Command) -> None:
    first = json.loads(stealtime("run", "canyon", "--json").out)["run_id"]
    second = json.loads(stealtime("run", "canyon", "--repetitions", "1", "--json").out)["run_id"]
    compared = stealtime("compare", first, second, "--json")
    assert compared.code == 0
    cells = json.loads(compared.out)["cells"]
    assert len(cells) == 4
    statistics = [one for cell in cells for one in cell["statistics"]]
    assert {(one["a_count"], one["b_count"], one["verdict"]) for one in statistics} == {(2000, 1000, "lower")}
    assert "echoes  2000  1000  0.500" in " ".join(stealtime("compare", first, second).out.split(" "))


def test_it_stands_beside_another_study_in_one_run(stealtime: Command, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(MIXED)
    ended = stealtime("run", str(tmp_path / "mixed.toml"), "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert [(cell["study"], cell["probe"]) for cell in document["cells"]] == [("latency", "tick"), ("echo", "echo")]
    tick, echo = RunSummary.model_validate(document).cells
    assert (type(tick), type(echo)) == (CellSummary, EchoFigures)
    assert stealtime("export", "last", "--csv", str(tmp_path / "csv")).code == 0
    assert (tmp_path / "csv/native.alone.echo-3.r1.loudness.csv").read_text().count("\n") == 1001
    assert not (tmp_path / "csv/native.alone.echo-3.r1.csv").exists()
    head, *lines = csv.reader((tmp_path / "csv/summary.csv").read_text().splitlines())
    assert (head[-1], [line[-1] for line in lines]) == ("echoes", ["", "1000"])
    run = find_run("last", runs)
    write_report(run, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.index('id="answer"') < page.index('id="echoes"')
    assert "<h1>What was measured here?</h1>" in page
    assert "echo-3" not in page[page.index('id="answer"') : page.index('id="environment"')]


def test_its_mistakes_are_told_as_those_of_any_probe(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(MIXED.replace("shouts", "shots"))
    ended = stealtime("run", str(tmp_path / "wrong.toml"))
    assert (ended.code, "line 10: unknown key 'shots' in [[probes]] 2" in ended.err) == (2, True), ended.err
    assert "did you mean 'shouts'?" in ended.err


def test_a_run_of_a_study_that_is_not_there_says_so(
    stealtime: Command, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stealtime("run", "canyon", "--short").code == 0
    with monkeypatch.context() as without:
        without.setattr(registry, "_added", [])
        ended = stealtime("show")
    assert (ended.code, "no study of this version has a probe 'echo'" in ended.err) == (1, True), ended.err
    stored = Run.open(find_run("last", runs).folder)
    stored.check_tables()
    assert [trial.record.result.kind for trial in stored.trials if trial.record.result] == ["echoes", "echoes"]


def test_no_two_studies_have_a_probe_of_one_name() -> None:
    with pytest.raises(ValueError, match="echo"), registry.added(STUDY):
        pass
    with pytest.raises(StealtimeError, match="'chorus'"):
        registry.study_of("chorus")


def test_a_cell_of_an_older_document_is_of_the_latency_study() -> None:
    cells = [cell.model_dump(mode="json", exclude={"study"}) for cell in campaign_cells()[:2]]
    document = {"run_id": "r", "created_at": datetime.now(UTC), "campaign": "c", "host": {}, "cells": cells}
    assert [type(cell) for cell in RunSummary.model_validate(document).cells] == [CellSummary, CellSummary]
