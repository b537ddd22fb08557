"""What may be used, and what passes a threshold: of every registered study the same, in every place that says it."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import telephony_cells
from call_cells import stage_call_failover
from command import Command
from dummy_study.study import EchoStudy
from junitparser import Error, JUnitXml, Skipped
from rich.console import Console
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run
from test_telephony_calls import _dialogues, _failover, _voice

from stealtime.campaigns import registry
from stealtime.cli.run import judge
from stealtime.report.catalogue.cell import CatalogueCell, CountedCell
from stealtime.report.cells.model import Bounded, CellFigures
from stealtime.report.junit import write_junit
from stealtime.report.page.html import write_report
from stealtime.report.studies import study_of
from stealtime.report.summarizing import summarize
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.run import print_tables
from stealtime.store.model import Cell, Failure, TrialRecord
from stealtime.store.results import Result
from stealtime.store.run import Run
from stealtime.studies.protection.results import Failover, RoundTrips
from stealtime.studies.telephony.calls.results import Calls
from stealtime.studies.telephony.results import SessionRate
from stealtime.vocabulary.findings import Finding
from stealtime.wire.message import TrialOutcome

MS = 1_000_000
WHY = "the voice was not synchronous"
COUNTED: dict[str, Any] = {"requests": 51, "acknowledged": 50, "violations": {}, "checkpoints": None}
FAILOVER = Failover(
    **COUNTED, host="a", silence_tcp_ns=300 * MS, silence_udp_ns=200 * MS, fault_to_running_ns=80 * MS,
    decision_to_running_ns=9 * MS, tcp_lived=True, pages_wrong=0,
)  # fmt: skip
CALLS = Calls(dialogues=_dialogues(), voice=_voice(), server_cpu_ns=5, host_cpu_ns=10, elapsed_ns=100)
RESULTS: dict[str, Result] = {
    "failover": FAILOVER,
    "roundtrip": RoundTrips(**COUNTED, tcp_p50_ns=1, tcp_p99_ns=1, udp_p50_ns=1, udp_p99_ns=1),
    "registration-rate": telephony_cells.rate(100.0),
    "session-rate": SessionRate(rate_per_s=90.0, is_bounded=True, attempts=[]),
    "register": telephony_cells.registrations(),
    "register-failover": telephony_cells.failover(),
    "session-failover": telephony_cells.session_failover(),
    "two-stage-failover": telephony_cells.two_stage_failover(),
    "two-stage-call-failover": stage_call_failover(),
    "call": CALLS,
    "call-failover": _failover(),
}
"""Of the probes of drivers; what an agent measured is not read where it may not be used."""
PARAMETERS: dict[str, dict[str, Any]] = {
    "tick": {"loop_ns": 68_000}, "switch": {"threads": 2}, "wakeup": {"interval_ns": MS},
    "contend": {"tasks": 8, "iterations": 9},
    "rtload": {"policy": "fifo", "loop_ns": 68_000, "law": "light-uniform", "tasks_per_cpu": 1},
    "call": {"streams": 1, "mode": "off"}, "call-failover": {"streams": 1, "mode": "net", "interval_ns": MS},
    "registration-rate": {"mode": "off", "transport": "udp"}, "session-rate": {"mode": "off"},
    "register": {"mode": "off", "transport": "udp", "rate_per_s": 100},
    "register-failover": {"mode": "net", "transport": "udp", "rate_per_s": 100},
    "session-failover": {"mode": "net", "rate_per_s": 100},
    "two-stage-failover": {"mode": "net", "primaries": 2, "transport": "udp", "rate_per_s": 100},
    "two-stage-call-failover": {"mode": "net", "primaries": 2, "streams": 20},
    "roundtrip": {"mode": "net", "interval_ns": MS}, "failover": {"mode": "net", "interval_ns": MS, "fault": "killed"},
}  # fmt: skip
PROBES = sorted(registry.probes())


def outcome(folder: Path, *codes: tuple[str, str]) -> TrialOutcome:
    """Give what an agent tells, with these findings: code and level."""
    made_up = SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0, 0.4, 2_000)
    told = Run.open(write_synthetic_run(folder, cells=[made_up]).folder).trials[0].record.outcome
    assert told is not None
    findings = [
        Finding.model_validate({"code": code, "level": level, "text": f"it is {code}"}) for code, level in codes
    ]
    return told.model_copy(update={"findings": findings})


def record(probe: str, repetition: int, **what: Any) -> TrialRecord:
    cell = Cell(platform="native", scenario="alone", probe=probe, parameters=PARAMETERS.get(probe, {}))
    return TrialRecord(
        cell=cell, repetition=repetition, host="local", started_at=datetime(2026, 11, 25, tzinfo=UTC), elapsed_s=1.0,
        **what,
    )  # fmt: skip


def stored(folder: Path, records: list[TrialRecord]) -> Run:
    """Write a run that has only these trials."""
    run = complete(write_synthetic_run(folder, cells=[]).folder)
    for one in records:
        (run / "cells" / one.trial_id).mkdir()
        (run / "cells" / one.trial_id / "trial.json").write_text(one.model_dump_json())
    return Run.open(run)


def complete(folder: Path) -> Path:
    """Give a made-up run a campaign that can be read."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["campaign"]["probes"] = [{"probe": "wakeup", "duration": "1ms"}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def result_of(probe: str) -> Result:
    assert probe in RESULTS or registry.probes()[probe].driver is None, f"tell of {probe} what a driver gives"
    return RESULTS.get(probe, Result(kind="none", tables=()))


def say_the_same(stealtime: Command, run: Run, tmp_path: Path, *, invalid: int, failed: int, why: str) -> None:
    """See that exit codes, lists, documents, JUnit file, table and page agree about a run of one cell."""
    summary = summarize(run)
    (cell,) = summary.cells
    assert (cell.valid, why in cell.reasons) == (False, True), cell.reasons
    assert [one.valid for one in cell.trials].count(False) == invalid + failed
    code, remarks = judge(summary)
    assert code == (4 if cell.is_measured else 1), remarks
    assert f"{invalid} cells are invalid" in str(remarks) or not invalid
    shown = stealtime("show", str(run.folder), "--json")
    assert (shown.code, json.loads(shown.out)["cells"][0]["valid"]) == (4, False)
    (listed,) = json.loads(stealtime("ls", "--runs", str(run.folder.parent), "--json").out)["runs"]
    assert (listed["cells_invalid"], listed["cells_failed"]) == (invalid, failed), listed
    write_junit(run, summary, tmp_path / "cells.xml")
    results = [one for suite in JUnitXml.fromfile(str(tmp_path / "cells.xml")) for case in suite for one in case.result]
    assert [type(one) for one in results if not isinstance(one, Skipped)] == [Error]
    write_report(run, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert why in page[page.index('id="limits"') :]
    console = Console(width=200, file=io.StringIO())
    print_tables(summary, console)
    assert why in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("probe", PROBES)
def test_a_finding_that_invalidates_is_told_alike_everywhere(
    stealtime: Command, runs: Path, tmp_path: Path, probe: str
) -> None:
    told = outcome(tmp_path / "told", ("beyond repair", "invalidates"))
    run = stored(runs / "run", [record(probe, 1, state="measured", result=result_of(probe), outcome=told)])
    say_the_same(stealtime, run, tmp_path, invalid=1, failed=0, why="it is beyond repair")


@pytest.mark.parametrize("probe", PROBES)
def test_a_trial_that_failed_is_told_alike_everywhere(
    stealtime: Command, runs: Path, tmp_path: Path, probe: str
) -> None:
    run = stored(runs / "run", [record(probe, 1, state="failed", failure=Failure(message="the machine burned down"))])
    say_the_same(stealtime, run, tmp_path, invalid=0, failed=1, why="the machine burned down")


@pytest.mark.parametrize("probe", PROBES)
def test_a_trial_without_a_result_and_without_a_word_is_no_success(
    stealtime: Command, runs: Path, tmp_path: Path, probe: str
) -> None:
    run = stored(runs / "run", [record(probe, 1, state="measured")])
    (cell,) = summarize(run).cells
    assert (cell.valid, cell.is_measured, cell.reasons) == (False, False, ["the trial has no result"])


def test_what_a_study_alone_knows_is_told_alike_everywhere(stealtime: Command, runs: Path, tmp_path: Path) -> None:
    wrong = CALLS.model_copy(update={"voice": _voice(invalid=[WHY])})
    trials = [record("call", 1, state="measured", result=CALLS), record("call", 2, state="measured", result=wrong)]
    say_the_same(stealtime, stored(runs / "run", trials), tmp_path, invalid=1, failed=0, why=WHY)


def test_repetitions_by_clocks_of_different_rates_are_told_alike_everywhere(
    stealtime: Command, runs: Path, tmp_path: Path
) -> None:
    cells = [
        SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0, 0.4, 2_000, repetition=number)
        for number in (1, 2)
    ]
    folder = complete(write_synthetic_run(runs / "run", cells=cells).folder)
    document = folder / "cells" / cells[1].identity / "trial.json"
    text = document.read_text()
    assert '"units_per_s": 2100000000.0' in text
    document.write_text(text.replace('"units_per_s": 2100000000.0', '"units_per_s": 2400000000.0'))
    # As the whole trial told them: 0.7 ppm from what was read before it.
    why = "repetitions with clock rates from 2100001470 to 2400001680 Hz cannot be pooled"
    say_the_same(stealtime, Run.open(folder), tmp_path, invalid=2, failed=0, why=why)


def test_a_rate_that_was_read_wrong_and_told_right_by_the_whole_trial_keeps_no_repetition_out(runs: Path) -> None:
    cells = [
        SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0, 0.4, 2_000, repetition=number)
        for number in (1, 2)
    ]
    folder = complete(write_synthetic_run(runs / "run", cells=cells).folder)
    document = folder / "cells" / cells[1].identity / "trial.json"
    trial = json.loads(document.read_text())
    # 120 ppm, as of 6 us in 50 ms.
    clock = trial["outcome"]["clock"]
    clock["units_per_s"] *= 1 + 120e-6
    clock["check"]["disagreement_ppm"] -= 120
    document.write_text(json.dumps(trial))
    (cell,) = summarize(Run.open(folder)).cells
    assert cell.valid, cell.reasons


class KindStudy(EchoStudy):
    """A study to come that finds everything fine, and says nothing of how it was measured."""

    def summarize_cell(self, trials: Any) -> CatalogueCell:
        return echoes_of(trials[0].record.cell)


def echoes_of(cell: Cell) -> CatalogueCell:
    return CountedCell(
        study="echo", platform=cell.platform, scenario=cell.scenario, probe=cell.probe, parameters=cell.parameters,
        valid=True, reasons=[], limits=[], repetitions=1, figures=[], counts={"came_back": 1000},
    )  # fmt: skip


@pytest.fixture
def kind_study() -> Iterator[None]:
    with registry.added(KindStudy()):
        yield


@pytest.mark.usefixtures("kind_study")
def test_no_study_can_escape_the_rule(stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path) -> None:
    platforms[0].behaviour = lambda _: "invalid"
    ended = stealtime(
        "run", "canyon", "-P", "native", "--short", "--json", "--junit", str(tmp_path / "cells.xml")
    )  # fmt: skip
    (cell,) = json.loads(ended.out)["cells"]
    assert (ended.code, cell["valid"], cell["reasons"]) == (4, False, ["the clock ran 900 ppm fast"])
    assert "1 cells are invalid: native.alone.echo-3.r1" in ended.err
    assert stealtime("show").code == 4
    assert json.loads(stealtime("ls", "--json").out)["runs"][0]["cells_invalid"] == 1
    (case,) = [case for suite in JUnitXml.fromfile(str(tmp_path / "cells.xml")) for case in suite]
    assert isinstance(case.result[0], Error)


@pytest.mark.usefixtures("kind_study")
def test_no_study_can_lose_the_circumstances(stealtime: Command) -> None:
    ended = stealtime("run", "canyon", "-P", "native", "--short", "--json")
    (cell,) = json.loads(ended.out)["cells"]
    assert ended.code == 0, ended.err
    assert (cell["clock"]["name"], len(cell["placement"]["vcpu_cpus"])) == ("tsc", 1)
    assert [one["repetition"] for one in cell["trials"]] == [1]


@pytest.mark.usefixtures("kind_study")
def test_a_study_that_has_nothing_to_hold_against_a_threshold_is_refused_before_it_starts(
    stealtime: Command, platforms: list[ScriptedPlatform]
) -> None:
    for more in ((), ("--dry-run",)):
        ended = stealtime("run", "canyon", "--max-overhead", "1ms", *more)
        assert (ended.code, platforms[0].boots) == (2, 0)
        words = " ".join(ended.err.split())
        assert "--max-overhead 1ms has nothing to judge of echo" in words
        for judged in (
            "tick, switch, wakeup (the longest overhead)",
            "contend (how much longer it took than natively)",
            "rtload (the lateness of its most urgent task)",
        ):
            assert judged in words


@pytest.mark.parametrize("probe", PROBES)
def test_what_a_threshold_judges_is_said_of_just_those_cells_that_can_be_judged(probe: str) -> None:
    study = study_of(probe)
    if registry.probes()[probe].bounded is not None:
        assert study.figures.bounded is not CellFigures.bounded, f"{study.name} gives nothing to judge of {probe}"


def test_a_cell_of_a_study_that_gives_nothing_to_judge_passes_no_threshold() -> None:
    bounded = echoes_of(Cell(platform="native", scenario="alone", probe="echo", parameters={})).bounded()
    assert bounded == Bounded(None, unknown_because="the probe echo has nothing to hold against a threshold")


@pytest.mark.parametrize("probe", PROBES)
def test_every_study_tells_the_circumstances_of_its_cells(runs: Path, tmp_path: Path, probe: str) -> None:
    placement = {
        "vcpu_cpus": [[0, 1]], "emulator_cpus": [1], "housekeeping_cpus": [1], "scaled": "4 of the paper are 2 here",
        "share": {"quota_percent": 50.0},
    }  # fmt: skip
    neighbour = {
        "name": "neighbour 1", "kind": "process", "platform": "native", "cpus": [1],
        "load": {"kind": {"name": "cpu"}}, "outcome": None,
    }  # fmt: skip
    told = outcome(tmp_path / "told", ("noise", "limits"), ("beyond repair", "invalidates"))
    trial = TrialRecord.model_validate(
        {
            **record(probe, 1, state="measured", result=result_of(probe), outcome=told).model_dump(),
            "placement": placement,
            "neighbours": [neighbour],
        }
    )
    document = json.loads(summarize(stored(runs / "run", [trial])).model_dump_json())
    (cell,) = RunSummary.model_validate(document).cells
    assert cell.scaled == "4 of the paper are 2 here"
    assert cell.placement is not None
    assert (cell.placement.vcpu_cpus, cell.placement.quota_percent) == ([[0, 1]], 50.0)
    assert cell.clock is not None
    assert "it is noise" in cell.limits
    assert [one.name for trial in cell.trials for one in trial.neighbours] == ["neighbour 1"]


def test_show_of_a_run_without_a_cell_is_no_success(stealtime: Command, runs: Path) -> None:
    run = stored(runs / "run", [])
    ended = stealtime("show", str(run.folder))
    assert (ended.code, "the run has no cell: nothing was measured" in ended.err) == (4, True)
    assert stealtime("show", str(run.folder), "--accept", "rhel-rt").code == 4
    assert stealtime("show", str(run.folder), "--tails").code == 4
    assert judge(summarize(run))[0] == 1


def test_a_cell_that_says_two_things_at_once_is_none() -> None:
    with pytest.raises(ValueError, match="if and only if"):
        telephony_cells.some_cells()[0].model_validate(
            {**telephony_cells.some_cells()[0].model_dump(), "reasons": ["no"]}
        )
