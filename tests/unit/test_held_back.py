"""What the kernel's limit on real-time threads explains: it counts for no maximum and for no ratio."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from latency_page import content_of
from rich.console import Console
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.campaigns.threshold import Threshold
from stealtime.report.comparing import compare
from stealtime.report.gate import hold
from stealtime.report.page.html import write_report
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.terminal.summary import tables
from stealtime.studies.latency.wording.held_back import held_back_sentences

FAIR_SERVER: dict[str, str | None] = {
    "code": "fair_server", "level": "limits", "text": "ordinary threads are served", "hint": None,
}  # fmt: skip


NATIVE = SyntheticCell(
    "native", "tick", {"loop_ns": 68_000}, 68_000.0, 51.7e6, 0.4, 20_000, 250.0, 3_000.0, findings=(RT_THROTTLING,)
)
UML = replace(NATIVE, platform="uml", worst_ns=3e6, findings=())


def repeated(*cells: SyntheticCell, times: int = 5) -> list[SyntheticCell]:
    return [replace(cell, repetition=number) for cell in cells for number in range(1, times + 1)]


@pytest.fixture
def throttled(tmp_path: Path) -> Run:
    """What `stealtime run` leaves on a host whose kernel stopped the native probe, and no guest."""
    return Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(NATIVE, UML)).folder)


def test_a_newcomer_reads_no_ratio_of_a_pause(throttled: Run) -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(tables(summarize(throttled)))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    answer = text[: text.index("\ntick 68us")]
    ratios = [float(found) for found in re.findall(r"([\d.]+)\N{MULTIPLICATION SIGN}", answer)]
    assert ratios, answer
    assert all(ratio > 0.5 for ratio in ratios), f"a guest is called faster than its host: {answer}"
    assert "51.7" not in answer.split("\N{DAGGER}")[0]
    native, uml = (
        line for line in text[text.index("\ntick 68us") :].splitlines() if line.startswith(("native ", "uml "))
    )
    assert native.count("\N{DAGGER}") == 2, "of the maximum and of its overhead"
    assert "\N{DAGGER}" not in uml
    assert "5 of tick 68us (the longest 51.6 ms)" in " ".join(text.split())
    assert "a limit of this machine's own kernel" in " ".join(text.split())


@pytest.mark.parametrize("finding", [RT_THROTTLING, FAIR_SERVER])
@pytest.mark.parametrize("probe", ["tick", "switch"])
def test_what_a_limit_could_have_done_is_no_excuse(finding: dict[str, str | None], probe: str, tmp_path: Path) -> None:
    parameters = {"threads": 2} if probe == "switch" else NATIVE.parameters
    paused = replace(NATIVE, probe=probe, parameters=parameters, worst_ns=41e6, findings=(finding,))
    stolen = replace(paused, platform="uml", proven_share=0.0)
    unseen = replace(paused, platform="qemu-tcg-paravirt", proven_share=None)
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(paused, stolen, unseen)).folder)
    one, other, third = summarize(run).cells
    assert one.held_back is not None
    assert (one.held_back.count, one.held_back.unproven) == (5, 0)
    longest_ns = one.bounded().longest_ns
    assert longest_ns is not None
    assert longest_ns < 20e6
    for cell in (other, third):
        assert cell.held_back is not None
        assert (cell.held_back.count, cell.held_back.unproven) == (0, 5)
        assert cell.bounded().longest_ns == pytest.approx(41e6, rel=0.01)
    # A stall that was no pause is compared; where nobody could see it, it may be one.
    assert other.comparable_worst_ns == pytest.approx(41e6)
    assert third.comparable_worst_ns is None
    told, untold = held_back_sentences([other, third])
    assert "no ordinary thread was seen to run then" in told
    assert "Permission denied" in untold


def test_what_is_not_proven_of_a_pause_counts(tmp_path: Path) -> None:
    half = replace(NATIVE, proven_share=0.6)
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=[half]).folder)
    (cell,) = summarize(run).cells
    assert cell.bounded().longest_ns == pytest.approx(0.4 * 51.7e6, rel=0.01)


def test_runs_that_looked_for_no_evidence_have_no_excuse(tmp_path: Path) -> None:
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=[NATIVE]).folder)
    path = run.folder / "cells" / NATIVE.identity / "trial.json"
    record = json.loads(path.read_text())
    del record["outcome"]["limit"]
    path.write_text(json.dumps(record))
    (cell,) = summarize(Run.open(run.folder)).cells
    assert cell.held_back is None
    assert cell.worst_ns == pytest.approx(51.7e6)


def test_a_percentile_that_may_be_a_pause_is_compared_with_nothing(throttled: Run) -> None:
    summary = summarize(throttled)
    native, _ = summary.cells
    trials = [
        trial.model_copy(update={"stats": trial.stats.model_copy(update={"p999_ns": 51.7e6})})
        for trial in native.trials
        if trial.stats is not None
    ]
    alone = summary.model_copy(update={"cells": [native.model_copy(update={"trials": trials})]})
    (cell,) = compare(alone, alone).cells
    found = {one.statistic: one for one in cell.statistics}
    assert found["p999_ns"].verdict == "not judged"
    assert found["p999_ns"].because is not None
    assert "limit on real-time threads" in found["p999_ns"].because
    assert found["p99_ns"].verdict == "no difference shown"


def test_a_pause_is_over_no_threshold(throttled: Run) -> None:
    native, uml = summarize(throttled).cells
    native_held, uml_held = hold([native, uml], [Threshold("max", 1_000_000)]).cells
    assert native_held.verdict == "passed"
    assert uml_held.verdict == "exceeded"
    assert uml_held.value_ns == pytest.approx(2.93e6, rel=0.01)


def test_the_report_compares_no_pause_with_anything(throttled: Run, tmp_path: Path) -> None:
    native, uml = content_of(throttled).groups[0].rows
    assert native.cell.held_back is not None
    assert native.cell.held_back.count == 5
    assert native.statistics.max_ns == pytest.approx(51.7e6)
    assert native.cell.worst_overhead_ns is not None
    assert native.cell.worst_overhead_ns < 26e6
    assert uml.tail_ratio is not None
    assert uml.tail_ratio.low < 1.0 < uml.tail_ratio.high, "both were made of the same noise"
    write_report(throttled, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    answer = page[page.index('id="answer"') : page.index('id="summary"')]
    assert "excluded: 5 by RT throttling" in answer
    assert "They count for no maximum and no ratio" in answer
    assert "51.7 ms" not in answer


def test_only_a_maximum_that_is_a_pause_is_marked(tmp_path: Path) -> None:
    calm = replace(NATIVE, worst_ns=300_000.0)
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(calm)).folder)
    console = Console(width=100, file=io.StringIO())
    console.print(tables(summarize(run)))
    assert isinstance(console.file, io.StringIO)
    assert "\N{DAGGER}" not in console.file.getvalue()


def test_a_probe_that_sleeps_is_not_held_back(tmp_path: Path) -> None:
    wakeup = SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 2_000.0, 40e6, 0.4, 4_000,
                           findings=(RT_THROTTLING,))  # fmt: skip
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=[wakeup]).folder)
    (cell,) = summarize(run).cells
    assert cell.held_back is None
    assert cell.worst_ns == pytest.approx(40e6)


def test_few_repetitions_have_no_interval_and_no_ratio(tmp_path: Path) -> None:
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(NATIVE, UML, times=2)).folder)
    native, uml = content_of(run).groups[0].rows
    assert (native.tail, uml.tail, uml.tail_ratio) == (None, None, None)
    assert uml.tail_ns is not None


def summary_of(cells: list[SyntheticCell], folder: Path) -> str:
    """Give the table of a report."""
    write_report(Run.open(write_synthetic_run(folder / "run", cells=cells).folder), folder / "report.html")
    page = (folder / "report.html").read_text()
    return page[page.index('id="summary"') : page.index("</section>", page.index('id="summary"'))]


@pytest.mark.parametrize(("stall_ns", "is_named"), [(51.7e6, True), (200e6, False)])
def test_the_report_names_the_limit_beside_a_maximum_that_is_its_pause(
    stall_ns: float, is_named: bool, tmp_path: Path
) -> None:
    cells = [*repeated(NATIVE, times=4), replace(NATIVE, worst_ns=stall_ns, repetition=5)]
    table = summary_of(cells, tmp_path)
    assert ("RT throttling</small>" in table) == is_named
    assert f"<b>{stall_ns / 1e6:.1f}" in table
