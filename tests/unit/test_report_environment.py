import math
from dataclasses import replace
from pathlib import Path

import pytest
from latency_page import content_of
from synthetic_run import RT_THROTTLING, SyntheticCell, write_synthetic_run

from stealtime.lab.platforms.affinity import HostThread
from stealtime.report import environment, notation
from stealtime.store.model import NeighbourRecord
from stealtime.store.run import Run
from stealtime.studies.latency.page.content import ReportContent
from stealtime.studies.latency.page.ratios import OVERHEAD_WORDS, RATIO_WORDS, cost_figure
from stealtime.wire.load import CpuLoad, LoadRequest


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> ReportContent:
    cells = [
        SyntheticCell(platform, "switch", {"threads": threads}, 180.0, 9e4, 0.5, 3_000, findings=findings)
        for platform, findings in (("native", (RT_THROTTLING,)), ("qemu-tcg-paravirt", (RT_THROTTLING,)), ("uml", ()))
        for threads in (2, 10)
    ]
    known = write_synthetic_run(tmp_path_factory.mktemp("runs") / "run", cells=cells)
    return content_of(Run.open(known.folder))


def test_remark_of_many_cells_is_told_once_with_all_of_them(content: ReportContent) -> None:
    spread = content.limits.remarks
    assert [one.remark.text for one in spread] == [RT_THROTTLING["text"]]
    assert spread[0].where == (("native", "every probe"), ("qemu-tcg-paravirt", "every probe"))


def test_facts_of_host_and_machines_stand_side_by_side(content: ReportContent) -> None:
    facts = environment.fact_table(content.manifest, content.trials)
    assert facts.machines == ("host", "native", "qemu-tcg-paravirt", "uml")
    shared = dict(facts.shared)
    assert [cell.text for cell in shared["clocksource"]] == ["tsc", "tsc", "tsc", "timer"]
    assert {cell.absent_because for cell in shared["governor"]} == {
        "/sys/devices/system/cpu/cpu0/cpufreq does not exist"
    }
    assert [(name, machine, cell.text) for name, machine, cell in facts.single] == [
        ("accelerator", "qemu-tcg-paravirt", "tcg"),
        ("qemu version", "qemu-tcg-paravirt", "7.2.22"),
    ]


def test_threads_are_told_with_their_cpus_and_number_of_trials(content: ReportContent) -> None:
    lines = {
        (line.machine, line.role): (line.cpus, line.trials)
        for line in environment.thread_lines(content.manifest, content.trials)
    }
    assert lines["qemu-tcg-paravirt", "vcpu"] == ("1", 2)
    assert lines["qemu-tcg-paravirt", "measuring"] == ("0 of this machine", 2)


@pytest.mark.parametrize(
    ("cpus", "text"), [([0, 1, 2, 3, 8], "0-3,8"), ([5], "5"), ([3, 1, 3], "1,3"), ([], "\N{EN DASH}")]
)
def test_cpus_are_written_as_the_kernel_does(cpus: list[int], text: str) -> None:
    assert environment.cpu_list(cpus) == text


def test_costs_are_drawn_for_every_platform_of_every_probe(content: ReportContent) -> None:
    (scenario,) = content.scenarios
    drawn = cost_figure(content, scenario)
    assert drawn is not None
    figure, words = drawn
    # One repetition has no interval, hence no ratio: the overheads themselves are drawn, native's too.
    assert words == OVERHEAD_WORDS
    assert [[row.name for row in group.rows] for group in figure.groups] == [["native", "uml", "qemu-tcg-paravirt"]] * 2


def test_scenarios_have_a_figure_each_and_one_axis(tmp_path: Path) -> None:
    cell = SyntheticCell("uml", "switch", {"threads": 2}, 200.0, 1e5, 0.5, 2_000, scenario="one-to-one")
    worse = replace(cell, scenario="contention-cpu", worst_ns=9e5)
    content = content_of(Run.open(write_synthetic_run(tmp_path / "run", cells=[cell, worse]).folder))
    figures = [drawn[0] for scenario in content.scenarios if (drawn := cost_figure(content, scenario)) is not None]
    assert len({figure.axis for figure in figures}) == 1
    words = [row.words for figure in figures for group in figure.groups for row in group.rows]
    assert sorted(one.rpartition("longest ")[2] for one in words) == ["900 µs", "99.8 µs"]


def test_ratios_are_drawn_where_there_are_any_and_native_is_named(tmp_path: Path) -> None:
    native = SyntheticCell("native", "switch", {"threads": 2}, 200.0, 1e5, 0.5, 4_000)
    cells = [
        replace(native, platform=platform, floor_ns=floor_ns, repetition=number, tick_cost_ns=10 * floor_ns)
        for platform, floor_ns in (("native", 200.0), ("uml", 800.0))
        for number in range(1, 6)
    ]
    content = content_of(Run.open(write_synthetic_run(tmp_path / "run", cells=cells).folder))
    drawn = cost_figure(content, content.scenarios[0])
    assert drawn is not None
    figure, words = drawn
    assert words == RATIO_WORDS
    (group,) = figure.groups
    assert "; native " in group.title
    (row,) = group.rows
    ratio = content.groups[0].rows[1].tail_ratio
    assert ratio is not None
    assert (row.low, row.at, row.high) == tuple(math.log10(one) for one in (ratio.low, ratio.value, ratio.high))
    assert row.words.startswith(f"{notation.ratio(ratio.value)} (")
    assert figure.level == 0.0, "as natively"


def test_question_names_the_policy_that_the_threads_had(content: ReportContent) -> None:
    assert {group.question.partition(" threads")[0] for group in content.groups} == {"SCHED_FIFO"}


def test_threads_of_neighbours_and_every_cpu_of_a_roaming_thread_are_told(content: ReportContent) -> None:
    trial = content.trials[0]
    assert trial.outcome is not None
    roaming = trial.outcome.placement.model_copy(update={"cpus": [0, 1, 2], "policy": "SCHED_OTHER", "priority": 0})
    neighbour = NeighbourRecord(
        name="neighbour 1",
        kind="process",
        platform="native",
        cpus=[1],
        load=LoadRequest(kind=CpuLoad()),
        threads=[HostThread(role="neighbour", name="stealtime-agent", tid=77, cpus=(1,))],
    )
    changed = trial.model_copy(
        update={"outcome": trial.outcome.model_copy(update={"placement": roaming}), "neighbours": [neighbour]}
    )
    lines = {
        (line.machine, line.role): (line.name, line.cpus)
        for line in environment.thread_lines(content.manifest, (changed,))
    }
    assert lines[f"neighbour 1 of {trial.cell.platform}", "neighbour"] == ("stealtime-agent", "1")
    assert lines[trial.cell.platform, "measuring"] == ("SCHED_OTHER 0", "0-2 of this machine")
