"""What the kernel's limit on real-time threads explains: it counts for no maximum and for no ratio."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime._core import Series
from stealtime.report.comparison import compare
from stealtime.report.gate import hold
from stealtime.report.page.html import write_report
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.held_back import Limit, find_held_back
from stealtime.studies.latency.analysis.model import HeldBack
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.page.gather import gather
from stealtime.studies.latency.terminal.summary import render_summary

LIMIT = Limit("RT throttling", 50e6)
LOOP_NS = 100_000
A_SECOND = 1_000_000_000 // LOOP_NS


FAIR_SERVER: dict[str, str | None] = {
    "code": "fair_server", "level": "limits", "text": "ordinary threads are served", "hint": None,
}  # fmt: skip


def held_back(stalls: dict[float, float], seconds: int = 5, limit: Limit = LIMIT) -> HeldBack:
    """Find what is explained in a series of loops, of which those at some seconds last some ms longer."""
    durations = np.full(seconds * A_SECOND, LOOP_NS, dtype=np.uint32)
    for at_s, stall_ms in stalls.items():
        durations[round(at_s * A_SECOND)] += round(stall_ms * 1e6)
    return find_held_back(Series(durations, None, None, None, None, None, "tiled", None, 1e9, None), 1e9, limit)


def test_pauses_of_the_limit_are_told_from_the_longest_of_the_others() -> None:
    found = held_back({0.9: 31.0, 1.8: 50.2, 2.5: 0.3, 2.7: 53.9, 3.6: 50.0})
    assert found.count == 4
    assert found.longest_ns == pytest.approx(53.9e6)
    assert found.rest_max_overhead_ns == pytest.approx(0.3e6)
    assert found.rest_max_at_s == pytest.approx(2.5 + 0.0812, abs=1e-6), "the pauses before it took their time"
    assert not found.is_in_rest


def test_what_comes_twice_in_a_period_is_not_explained() -> None:
    found = held_back({1.0: 50.0, 1.2: 45.0, 2.0: 50.0})
    assert (found.count, found.is_in_rest) == (2, True)
    assert found.rest_max_overhead_ns == pytest.approx(45e6)


def test_what_is_longer_than_a_pause_counts_as_a_maximum_and_is_compared_with_nothing() -> None:
    found = held_back({1.0: 50.0, 2.0: 75.0})
    assert (found.count, found.is_in_rest) == (1, True)
    assert found.rest_max_overhead_ns == pytest.approx(75e6)


def test_what_is_far_below_a_pause_is_not_explained() -> None:
    found = held_back({1.0: 24.0})
    assert (found.count, found.is_in_rest) == (0, False)
    assert found.rest_max_overhead_ns == pytest.approx(24e6)


def test_there_are_no_more_pauses_than_the_thread_was_put_off_its_cpu() -> None:
    found = held_back({1.0: 50.0, 2.0: 46.0}, limit=replace(LIMIT, pauses_most=1))
    assert (found.count, found.is_in_rest) == (1, True)
    assert found.longest_ns == pytest.approx(50e6)
    assert found.rest_max_overhead_ns == pytest.approx(46e6)


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
    console.print(render_summary(summarize(throttled)))
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
def test_a_cpu_that_the_host_took_is_no_pause_of_this_kernel(finding: dict[str, str | None], tmp_path: Path) -> None:
    stolen = replace(NATIVE, findings=(finding,), counters=(("involuntary_context_switches", 0),))
    paused = replace(stolen, platform="uml", counters=(("involuntary_context_switches", 3),))
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(stolen, paused)).folder)
    one, other = summarize(run).cells
    assert one.held_back is None
    assert one.comparable_worst_ns == pytest.approx(51.7e6)
    assert other.held_back is not None
    assert other.held_back.count == 5
    assert other.worst_ns is not None
    assert other.worst_ns < 26e6


def test_a_ring_is_not_known_to_have_been_stopped_by_the_fair_server(tmp_path: Path) -> None:
    ring = replace(NATIVE, probe="switch", parameters={"threads": 2}, floor_ns=4_000.0, findings=(FAIR_SERVER,))
    throttled = replace(ring, platform="uml", findings=(RT_THROTTLING,))
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=repeated(ring, throttled)).folder)
    one, other = summarize(run).cells
    assert one.held_back is None
    assert other.held_back is not None


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
    native_held, uml_held = hold([native, uml], 1_000_000).cells
    assert native_held.verdict == "passed"
    assert uml_held.verdict == "exceeded"
    assert uml_held.longest_ns == pytest.approx(2.93e6, rel=0.01)


def test_the_report_compares_no_pause_with_anything(throttled: Run, tmp_path: Path) -> None:
    native, uml = gather(throttled).groups[0].rows
    assert native.held_back is not None
    assert native.held_back.count == 5
    assert native.statistics.max_ns == pytest.approx(51.7e6)
    assert native.worst_overhead_ns is not None
    assert native.worst_overhead_ns < 26e6
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
    console.print(render_summary(summarize(run)))
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
    native, uml = gather(run).groups[0].rows
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
