"""What the laboratory does with studies, whichever there are: beside each other in a run, missing, of older runs."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import Command
from dummy_study.study import STUDY
from measured_campaign import campaign_cells
from scripted_agent import ScriptedPlatform

from stealtime.campaigns import registry
from stealtime.campaigns.study import Study
from stealtime.report.catalogue.cell import CountedCell
from stealtime.report.page.html import write_report
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run, find_run
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.vocabulary.errors import StealtimeError

pytestmark = pytest.mark.usefixtures("echo_study")
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


def test_what_failed_or_was_limited_stands_on_the_page_whatever_its_study(
    stealtime: Command, platforms: list[ScriptedPlatform], runs: Path
) -> None:
    platforms[1].behaviour = lambda _: "refuse"
    assert stealtime("run", "canyon", "--short").code == 4
    page = (find_run("last", runs).folder / "report.html").read_text()
    limits = page[page.index('id="limits"') : page.index('id="environment"')]
    assert "uml.alone.echo-3.r1</b>: the agent of uml failed" in limits
    assert "the agent of uml failed" in stealtime("show").out


def test_two_studies_stand_beside_each_other_in_one_run(stealtime: Command, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(MIXED)
    ended = stealtime("run", str(tmp_path / "mixed.toml"), "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert [(cell["study"], cell["probe"]) for cell in document["cells"]] == [("latency", "tick"), ("echo", "echo")]
    tick, echo = RunSummary.model_validate(document).cells
    assert (type(tick), type(echo), echo.study) == (CellSummary, CountedCell, "echo")
    assert stealtime("export", "last", "--csv", str(tmp_path / "csv")).code == 0
    assert (tmp_path / "csv/native.alone.echo-3.r1.loudness.csv").read_text().count("\n") == 1001
    assert not (tmp_path / "csv/native.alone.echo-3.r1.csv").exists()
    head, *lines = csv.reader((tmp_path / "csv/summary.csv").read_text().splitlines())
    assert [dict(zip(head, line, strict=True))["came_back"] for line in lines] == ["", "1000"]
    run = find_run("last", runs)
    write_report(run, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.index('id="answer"') < page.index('id="echo"')
    assert "<h1>What was measured here?</h1>" in page
    assert "echo-3" not in page[page.index('id="answer"') : page.index('id="environment"')]


def test_mistakes_about_a_probe_of_any_study_are_told(stealtime: Command, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("study", registry.studies(), ids=lambda study: study.name)
def test_every_part_that_a_study_registers_by_its_place_is_there(study: Study) -> None:
    parts = {name: getattr(study, name) for name in vars(type(study)) if not name.startswith("_")}
    assert callable(parts["figures"])
    assert None not in parts.values()


def test_no_two_studies_have_a_probe_of_one_name() -> None:
    with pytest.raises(ValueError, match="echo"), registry.added(STUDY):
        pass
    with pytest.raises(StealtimeError, match="'chorus'"):
        registry.study_of("chorus")


def test_a_cell_of_an_older_document_is_of_the_latency_study() -> None:
    cells = [cell.model_dump(mode="json", exclude={"study"}) for cell in campaign_cells()[:2]]
    document = {"run_id": "r", "created_at": datetime.now(UTC), "campaign": "c", "host": {}, "cells": cells}
    assert [type(cell) for cell in RunSummary.model_validate(document).cells] == [CellSummary, CellSummary]


def test_a_study_that_declares_its_figures_alone_answers_with_those_of_its_first_table(stealtime: Command) -> None:
    ended = stealtime("run", "canyon", "--short", "--repetitions", "4", "--json")
    document = json.loads(ended.out)
    (answer,) = document["answers"]
    first = document["cells"][0]
    figures = {one["name"]: one for one in first["figures"]}
    quoted = {one["name"]: one["value"] for one in answer["figures"] if one["platform"] == first["platform"]}
    assert quoted == {f"figures.{name}.p50": figures[name]["p50"] for name in ("echoes", "wait_ns")}
    assert answer["sentence"] in " ".join(stealtime("show").out.split())
    assert "native echo 3" in answer["sentence"]
    # Each repetition is the same here, so that there is an interval, and it is narrow.
    assert answer["trusted"], answer["because"]
