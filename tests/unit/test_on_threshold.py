"""``--on-threshold``: what is asked of the agents, where a run ends, and how the sample is explained."""

import html
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from command import Command
from rich.console import Console
from scripted_agent import ScriptedPlatform
from synthetic_run import UNITS_PER_S, write_synthetic_run
from test_attribution import tick_cell, trace_ticks, write_trace

from stealtime.campaigns.moment import KEPT_BYTES
from stealtime.lab.platforms.model import Machine
from stealtime.lab.scenarios.neighbour_work import Work, own_work
from stealtime.lab.scenarios.placement import PlacedNeighbour
from stealtime.report.terminal.moment import render_moment
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.attribution.moment import moment_of
from stealtime.wire.threshold import OnThreshold

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1", "-P", "native,uml", "--on-threshold", "100us")


def test_the_run_ends_at_the_first_sample_that_is_too_long(
    stealtime: Command, platforms: list[ScriptedPlatform], runs: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    ended = stealtime(*SHORT, "--on-threshold-run", f"env | grep ^STEALTIME_ | sort > {told}")
    assert ended.code == 3, ended.err
    trials = [one for platform in platforms for one in platform.trials]
    assert [one.on_threshold for one in trials] == [OnThreshold(overhead_ns=100_000, stop=True)]
    assert "over the threshold: sample 7 of native.alone." in ended.err
    assert "took 2.500 s, more than 100 µs over the floor" in ended.err
    assert "stopped there: 11 cells are left; `stealtime run --resume " in ended.err
    (run,) = runs.iterdir()
    assert json.loads((run / "manifest.json").read_text())["state"] == "interrupted"
    environment = dict(line.split("=", 1) for line in told.read_text().splitlines())
    assert environment["STEALTIME_SAMPLE"] == "7"
    assert environment["STEALTIME_SAMPLE_NS"] == "2500000000"
    assert environment["STEALTIME_THRESHOLD_NS"] == "100000"
    assert Path(environment["STEALTIME_FOLDER"]).parent.parent == run


def test_it_goes_on_where_that_is_wanted_and_ends_with_the_same_code(
    stealtime: Command, platforms: list[ScriptedPlatform], runs: Path
) -> None:
    ended = stealtime(*SHORT, "--on-threshold-action", "go-on", "--probe", "wakeup")
    assert ended.code == 3, ended.err
    assert [one.on_threshold.stop for platform in platforms for one in platform.trials if one.on_threshold] == [
        False,
        False,
    ]
    assert ended.err.count("over the threshold: sample 7") == 2
    assert "cells are left" not in ended.err
    (run,) = runs.iterdir()
    assert json.loads((run / "manifest.json").read_text())["state"] == "finished"
    told = json.loads(stealtime("show", run.name, "--json").out)["moments"]
    assert [(one["sample"], one["threshold_ns"], one["is_stopped"]) for one in told] == [(7, 100_000, False)] * 2
    stealtime("report", run.name)
    page = " ".join((run / "report.html").read_text().split())
    assert page.count("took <b>2.500 s</b>, more than 100 µs over the floor") == 2
    assert told[0]["not_explained"] in html.unescape(page)


def test_both_kernels_are_recorded_and_only_the_last_is_kept(
    stealtime: Command, platforms: list[ScriptedPlatform]
) -> None:
    stealtime(*SHORT, "-P", "native", "--probe", "wakeup")
    assert platforms[0].traces
    assert {one.keep_bytes_per_cpu for one in platforms[0].traces} == {KEPT_BYTES}
    stealtime(*SHORT, "-P", "native", "--probe", "wakeup", "--on-threshold-action", "go-on")
    assert platforms[0].traces[-1].keep_bytes_per_cpu is None, "the run goes on, and the moment would be overwritten"
    stealtime("run", "quick", "-D", "1ms", "--repetitions", "1", "-P", "native", "--probe", "wakeup", "--tracing", "on")
    assert platforms[0].traces[-1].keep_bytes_per_cpu is None


def test_a_command_that_fails_is_told_and_takes_nothing_with_it(stealtime: Command) -> None:
    ended = stealtime(*SHORT, "--on-threshold-run", "exit 7")
    assert ended.code == 3
    assert "error: the command of --on-threshold-run ended with 7: exit 7" in ended.err
    assert "over the threshold: sample 7" in ended.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--on-threshold", "0us"), "--on-threshold: '0us' is less than 1 ns"),
        (("--on-threshold", "soon"), "--on-threshold: "),
        (("--on-threshold-action", "go-on"), "--on-threshold-action needs a threshold"),
        (("--on-threshold-run", "true"), "--on-threshold-run needs a threshold"),
    ],
)
def test_what_makes_no_sense_is_refused(stealtime: Command, arguments: tuple[str, ...], told: str) -> None:
    ended = stealtime("run", "quick", *arguments)
    assert (ended.code, told in ended.err) == (2, True), ended.err


def test_a_probe_without_samples_is_refused(stealtime: Command) -> None:
    ended = stealtime("run", "stretch", "-P", "native", "--on-threshold", "100us")
    assert ended.code == 2
    assert "--on-threshold is about single samples, which contend has not" in ended.err


def test_a_neighbour_that_does_the_same_work_has_no_threshold(
    stealtime: Command, platforms: list[ScriptedPlatform]
) -> None:
    stealtime(*SHORT, "-P", "native", "--probe", "wakeup")
    request = platforms[0].trials[0]
    work = Work(request, uses_every_cpu=False, needs=(), deadline_s=1.0)  # type: ignore[arg-type]
    placed, booted = SimpleNamespace(vcpus=1), SimpleNamespace(platform="native", measured_cpus=(0,))
    assert request.on_threshold is not None
    given = own_work(work, cast(PlacedNeighbour, placed), cast(Machine, booted))
    assert given.request.on_threshold is None


@pytest.fixture
def stopped(tmp_path: Path) -> Trial:
    """A traced trial whose longest sample, which a neighbour took, was over a threshold."""
    known = write_synthetic_run(tmp_path / "run", cells=[tick_cell()])
    (cell,) = known.cells.values()
    write_trace(cell.folder, trace_ticks(cell.folder), cell.duration_s)
    path = cell.folder / "trial.json"
    document = json.loads(path.read_text())
    document["outcome"]["request"]["on_threshold"] = {"overhead_ns": 1_000_000, "stop": True}
    document["outcome"]["threshold"] = {
        "index": round(0.31 * 8_000), "duration_units": round(3_000_000 * UNITS_PER_S / 1e9), "end_tsc": 1,
        "samples_over": 1,
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return Run.open(known.folder).trials[0]


def test_the_sample_is_explained_in_shares_that_add_up(stopped: Trial) -> None:
    moment = moment_of(stopped)
    assert moment is not None
    assert moment.not_explained is None
    assert sum(share.percent for share in moment.shares) == pytest.approx(100.0)
    assert sum(share.lost_ns for share in moment.shares) == pytest.approx(moment.excess_ns)
    assert moment.largest is not None
    assert moment.largest.cause == "thread neighbour"
    assert moment.largest.percent == pytest.approx(90.0, abs=0.1)
    assert moment.environment("/there")["STEALTIME_CAUSE"] == "thread neighbour"
    output = io.StringIO()
    Console(file=output, width=100).print(render_moment(moment))
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("over the threshold: sample 2480 of native.alone.tick-68us.traced.r1, ")
    assert lines[1] == "  took 3.000 ms, more than 1.00 ms over the floor"
    assert lines[2].split() == ["90.0", "%", "2.64", "ms", "thread", "neighbour"]
    assert lines[-1].split() == ["100.0", "%", "2.93", "ms", "its", "excess", "over", "the", "floor"]


def test_without_a_trace_it_is_told_why_nothing_is_explained(stopped: Trial, tmp_path: Path) -> None:
    (stopped.folder / "host_trace.parquet").unlink()
    path = stopped.folder / "trial.json"
    document = json.loads(path.read_text())
    document["host_tracing"] = None
    document["outcome"]["findings"] = [
        {"code": "host_not_traced", "level": "limits", "text": "the host's kernel is not recorded: no right",
         "hint": "run it as root"}
    ]  # fmt: skip
    path.write_text(json.dumps(document))
    (trial,) = Run.open(stopped.folder.parent.parent).trials
    moment = moment_of(trial)
    assert moment is not None
    assert moment.shares == []
    assert "was not traced; the host's kernel is not recorded: no right" in str(moment.not_explained)
    assert moment.hint == "run it as root"
    assert moment.environment("x")["STEALTIME_CAUSE"] == ""
