"""How often and how long the hypervisor was entered: from the counters of a run to what is printed and drawn."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import SyntheticCell, default_cells, write_synthetic_run
from syrupy.assertion import SnapshotAssertion

from stealtime.report.cells.hypervisor import hypervisor_figures, median_figures
from stealtime.report.cells.surroundings import HypervisorFigures
from stealtime.report.circumstances.exits import TITLE
from stealtime.report.page.html import write_report
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.terminal.summary import tables

# Over two seconds on two virtual CPUs: the first halts and polls, the second measures.
HALTING = {
    "exits": 4_000, "io_exits": 30, "mmio_exits": 0, "halt_exits": 2_000, "irq_exits": 1_500, "hypercalls": 10,
    "pf_taken": 2, "halt_attempted_poll": 1_000, "halt_successful_poll": 250, "halt_poll_fail_ns": 80_000_000,
    "halt_wait_ns": 1_600_000_000,
}  # fmt: skip
MEASURING = {**dict.fromkeys(HALTING, 0), "exits": 2_000, "irq_exits": 500}
COUNTED = (HALTING, MEASURING)

WAKEUP = SyntheticCell(
    "qemu-kvm-paravirt", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 2_000, hypervisor=COUNTED
)
WITHOUT_HALTS = ({"exits": 123_456, "io_exits": 120_000, "halt_exits": 0, "irq_exits": 1_000},)
CELLS = [
    replace(WAKEUP, platform="native", hypervisor="natively there is no hypervisor of ours"),
    WAKEUP,
    replace(WAKEUP, platform="qemu-kvm-emulated", hypervisor=WITHOUT_HALTS),
    replace(WAKEUP, platform="qemu-tcg-paravirt", hypervisor="QEMU's TCG translates instructions"),
    replace(WAKEUP, scenario="contention-cpu"),
]


def run_of(folder: Path, cells: list[SyntheticCell]) -> Run:
    return Run.open(write_synthetic_run(folder / "run", cells=cells).folder)


def figures_of(folder: Path, cell: SyntheticCell) -> HypervisorFigures | None:
    return hypervisor_figures(run_of(folder, [cell]).trials[0].record)


def printed(run: Run) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(tables(summarize(run)))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


class Words(HTMLParser):
    """What a page says, a line for each row of a table and each other block."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += {"tr": "\n", "p": "\n", "h2": "\n", "dt": "\n", "summary": "\n", "br": ", "}.get(tag, "")
        self.text += " | " if tag in ("td", "th", "dd") else ""

    def handle_data(self, data: str) -> None:
        self.text += " " + data


def section_of(page: str) -> str:
    words = Words()
    begin = page.index('<section id="hypervisor"')
    words.feed(page[begin : page.index("</section>", begin)])
    return "\n".join(line for line in (re.sub(r"\s+", " ", one).strip() for one in words.text.splitlines()) if line)


def test_rates_are_of_all_virtual_cpus_and_times_are_shares_of_theirs(tmp_path: Path) -> None:
    figures = figures_of(tmp_path, WAKEUP)
    assert figures is not None
    assert (figures.vcpus, figures.counted_s) == (2, 2.0)
    assert figures.per_s["exits"] == 3_000
    assert figures.per_s["irq_exits"] == 1_000
    assert figures.time_share == {
        "halt_poll_fail": pytest.approx(0.02),
        "halt_wait": pytest.approx(0.4),
    }
    assert figures.polls_won_share == 0.25


def test_nothing_polled_is_no_share_of_polls(tmp_path: Path) -> None:
    figures = figures_of(tmp_path, replace(WAKEUP, hypervisor=(MEASURING,)))
    assert figures is not None
    assert figures.polls_won_share is None


@pytest.mark.parametrize("counted", [None, "an older QEMU"])
def test_a_trial_without_counters_has_no_figures(tmp_path: Path, counted: str | None) -> None:
    assert figures_of(tmp_path, replace(WAKEUP, hypervisor=counted)) is None


def test_a_cell_has_the_medians_over_the_repetitions_that_have_a_figure(tmp_path: Path) -> None:
    cells = [
        replace(WAKEUP, repetition=number, hypervisor=({**HALTING, "exits": exits},))
        for number, exits in enumerate((100, 900, 300), start=1)
    ]
    unknown = replace(WAKEUP, repetition=4, hypervisor="QEMU did not answer")
    [cell] = summarize(run_of(tmp_path, [*cells, unknown])).cells
    assert cell.hypervisor is not None
    assert cell.hypervisor.per_s["exits"] == 150
    assert [trial.hypervisor is None for trial in cell.trials] == [False, False, False, True]
    assert median_figures([]) is None


def test_what_is_printed(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    text = printed(run_of(tmp_path, CELLS))
    section = text[text.index(TITLE) : text.index("Clock of the samples")].strip()
    assert section == snapshot
    assert "…" not in section


def test_what_the_report_says(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    write_report(run_of(tmp_path, CELLS), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<a href="#hypervisor">' in page
    assert section_of(page) == snapshot


def test_nothing_is_said_where_no_cell_has_counters(tmp_path: Path) -> None:
    cells = [replace(cell, hypervisor="no KVM counters exist") for cell in default_cells(3_000)[:2]]
    run = run_of(tmp_path, cells)
    assert TITLE not in printed(run)
    write_report(run, tmp_path / "report.html")
    assert "hypervisor-heading" not in (tmp_path / "report.html").read_text()
    assert 'href="#hypervisor"' not in (tmp_path / "report.html").read_text()
