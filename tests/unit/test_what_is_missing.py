"""A run that lacks what was planned or asked for is no success, in every place that says so."""

import json
from pathlib import Path
from typing import Any

from command import Command
from junitparser import Error, JUnitXml, Skipped
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run
from test_one_rule import complete

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.report.acceptance.judgement import hold
from stealtime.report.acceptance.library import find_bars
from stealtime.report.csv import write_summary_csv
from stealtime.report.junit import write_junit
from stealtime.report.summarizing import summarize
from stealtime.store.model import PlatformRecord
from stealtime.store.run import Run

MS = 1_000_000
WAKEUP = SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 9_000.0, 0.4, 20_000)
PLANNED = [
    {"platform": platform, "scenario": "alone", "probe": "wakeup", "parameters": {"interval_ns": MS}}
    for platform in ("native", "uml")
]
NOT_THERE = "3 planned cells were not measured: uml.alone.wakeup-1ms, native.alone.wakeup-1ms"


def run_with(folder: Path, **changes: Any) -> Run:
    """One cell, whose manifest is changed."""
    path = complete(write_synthetic_run(folder, cells=[WAKEUP]).folder)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))
    return Run.open(path)


def errors_in(run: Run, path: Path) -> list[str]:
    write_junit(run, summarize(run), path)
    cases = [case for suite in JUnitXml.fromfile(str(path)) for case in suite]
    return [one.message for case in cases for one in case.result if isinstance(one, Error)]


def test_cells_that_were_planned_and_are_not_there_are_told_everywhere(stealtime: Command, tmp_path: Path) -> None:
    run = run_with(tmp_path / "runs" / "run", state="interrupted", planned=PLANNED, repetitions=2)
    shown = stealtime("show", str(run.folder))
    assert (shown.code, NOT_THERE in " ".join(shown.err.split())) == (4, True), shown.err
    document = json.loads(stealtime("show", str(run.folder), "--json").out)
    assert (document["state"], document["missing_trials"]) == ("interrupted", 3)
    assert [cell["platform"] for cell in document["missing"]] == ["uml", "native"]
    (listed,) = json.loads(stealtime("ls", "--runs", str(run.folder.parent), "--json").out)["runs"]
    assert listed["cells_missing"] == 3
    assert errors_in(run, tmp_path / "cells.xml") == ["it was not measured"]
    accepted = hold(summarize(run), find_bars("rhel-rt"), "rhel-rt")
    assert (accepted.verdict, NOT_THERE in accepted.missing) == ("not judged", True)
    whole = run_with(tmp_path / "whole", planned=PLANNED[:1])
    assert stealtime("show", str(whole.folder)).code == 0
    assert hold(summarize(whole), find_bars("rhel-rt"), "rhel-rt").missing == ()


def test_of_an_interrupted_run_of_an_earlier_version_it_is_not_known_what_is_missing(
    stealtime: Command, tmp_path: Path
) -> None:
    run = run_with(tmp_path / "runs" / "run", state="interrupted")
    why = "the run is interrupted, and cells may be missing"
    shown = stealtime("show", str(run.folder))
    assert (shown.code, why in shown.err) == (4, True), shown.err
    assert errors_in(run, tmp_path / "cells.xml") == [why]
    (listed,) = json.loads(stealtime("ls", "--runs", str(run.folder.parent), "--json").out)["runs"]
    assert listed["cells_missing"] is None
    assert "?" in stealtime("ls", "--runs", str(run.folder.parent)).out


def test_what_was_asked_for_by_name_and_is_not_to_be_had_ends_show_as_it_ended_run(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    platforms[1].unusable = "it is not installed"
    path = tmp_path / "cells.xml"
    ended = stealtime("run", "quick", "-P", f"native,{platforms[1].name}", "--junit", str(path))
    assert ended.code == 4
    shown = stealtime("show")
    told = "was asked for and cannot be used: it is not installed" in " ".join(shown.err.split())
    assert (shown.code, told) == (4, True), shown.err
    results = [one for suite in JUnitXml.fromfile(str(path)) for case in suite for one in case.result]
    assert [one.message for one in results if isinstance(one, Error)]
    assert any(isinstance(one, Skipped) for one in results)


def test_a_platform_whose_machines_are_too_small_for_every_scenario_is_told() -> None:
    campaign = Campaign.model_validate(
        {
            "name": "wide", "platforms": ["native", "uml"], "scenarios": ["wide"],
            "define": [{"name": "wide", "vcpus": 2}],
            "probes": [{"probe": "tick", "duration": "1ms"}],
        }
    )  # fmt: skip
    records = [PlatformRecord(name=name, usable=True, reason="", hint=None) for name in ("native", "uml")]
    planned = plan(campaign, records, HostCpus((0, 1)))
    assert planned.unplaced == ("uml was asked for and can be had in none of the scenarios wide",)
    usable = campaign.model_copy(update={"platforms": ["usable"]})
    assert plan(usable, records, HostCpus((0, 1))).unplaced == ()


def test_what_watched_too_short_is_counted_and_told_in_every_table(stealtime: Command, tmp_path: Path) -> None:
    full = {"code": "memory_full", "level": "limits", "text": "the memory was full", "hint": None}
    cell = SyntheticCell(
        "native", "wakeup", {"interval_ns": MS}, 1_900.0, 9_000.0, 0.4, 20_000, findings=(full,), proven_share=None
    )
    folder = complete(write_synthetic_run(tmp_path / "runs" / "run", cells=[cell]).folder)
    (listed,) = json.loads(stealtime("ls", "--runs", str(folder.parent), "--json").out)["runs"]
    assert (listed["cells_invalid"], listed["cells_not_as_asked"]) == (0, 1)
    write_summary_csv(summarize(Run.open(folder)), tmp_path / "cells.csv")
    assert "watched too short" in (tmp_path / "cells.csv").read_text()


def test_results_of_an_earlier_run_are_gone_before_anything_is_measured(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    """Whoever reads the file after an interruption must not take them for this run's."""
    path = tmp_path / "cells.xml"
    path.write_text("<testsuites/>")
    there: list[bool] = []

    def look(_: object) -> str:
        there.append(path.exists())
        return "measure"

    platforms[0].behaviour = look
    assert stealtime("run", "quick", "-P", "native", "--junit", str(path), "--dry-run").code == 0
    assert path.exists()
    stealtime("run", "quick", "-P", "native", "--junit", str(path))
    assert there
    assert not any(there)
    assert path.exists()
