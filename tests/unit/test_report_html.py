"""The report as a file: what it holds, what it survives, and what it refuses."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from latency_page import content_of
from synthetic_run import CLOCK_DISAGREES, KnownRun, SyntheticCell, default_cells, write_synthetic_run
from typer.testing import CliRunner

from stealtime.cli.report import report
from stealtime.report.page.html import write_report
from stealtime.store.run import Run
from stealtime.vocabulary.errors import StealtimeError

CELLS = default_cells(3_000)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KnownRun:
    return write_synthetic_run(tmp_path_factory.mktemp("runs") / "known", cells=CELLS)


@pytest.fixture(scope="module")
def page(known: KnownRun, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("reports") / "report.html"
    size = write_report(Run.open(known.folder), path)
    assert size == path.stat().st_size
    return path.read_text()


class Addresses(HTMLParser):
    """Everything in a page that a browser would fetch or follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "action", "data")]


def test_page_points_at_nothing_outside_itself(page: str) -> None:
    addresses = Addresses()
    addresses.feed(page)
    assert addresses.found
    assert [address for address in addresses.found if not address.startswith(("#", "data:,"))] == []
    assert "url(" not in page[: page.index("</style>")]


def test_page_names_what_failed_is_invalid_limited_or_unusable(page: str) -> None:
    limits = page[page.index('id="limits"') : page.index('id="environment"')]
    assert "qemu-tcg-emulated.alone.switch-10.r1" in limits
    assert "Kernel panic - not syncing: &lt;Attempted&gt; to kill init!" in limits
    assert "812 ppm faster" in limits
    assert "measure again with --lift-rt-throttling" in limits
    assert "a tiny guest did not boot within 5 s" in limits


def test_absent_facts_say_why(page: str) -> None:
    assert "/sys/devices/system/cpu/cpu0/cpufreq does not exist" in page


def test_page_says_how_to_reproduce(page: str) -> None:
    reproduce = page[page.index('id="reproduce"') :]
    assert "stealtime run synthetic" in reproduce
    assert "v0.1.0-4-gabcdef0" in reproduce


def test_invalid_cell_is_not_judged(known: KnownRun) -> None:
    content = content_of(Run.open(known.folder))
    group = next(group for group in content.groups if group.title == "Thread switch, 1000 threads")
    uml = group.row_of("uml")
    assert uml is not None
    assert not uml.cell.valid
    assert [remark.text for remark in uml.remarks] == [CLOCK_DISAGREES["text"]]


def test_nothing_is_compared_with_an_invalid_native_cell(tmp_path: Path) -> None:
    cells = [
        SyntheticCell("native", "switch", {"threads": 2}, 180.0, 9e4, 0.5, 3_000, findings=(CLOCK_DISAGREES,)),
        SyntheticCell("uml", "switch", {"threads": 2}, 180.0, 9e4, 0.5, 3_000),
    ]
    known = write_synthetic_run(tmp_path / "run", cells=cells)
    uml = content_of(Run.open(known.folder)).groups[0].row_of("uml")
    assert uml is not None
    assert (uml.worst_ratio, uml.median_ratio) == (None, None)


def test_figures_and_ratios_are_those_of_the_run(known: KnownRun) -> None:
    group = content_of(Run.open(known.folder)).groups[0]
    native, paravirt = known.find("native.alone.tick-68us.r1"), known.find("qemu-tcg-paravirt.alone.tick-68us.r1")
    row = group.row_of("qemu-tcg-paravirt")
    assert row is not None
    assert row.statistics.max_ns == pytest.approx(paravirt.max_ns)
    assert row.statistics.max_at_s == pytest.approx(paravirt.max_at_s)
    expected = (paravirt.max_ns - paravirt.min_ns) / (native.max_ns - native.min_ns)
    assert row.worst_ratio == pytest.approx(expected)


def test_repetitions_are_drawn_each_and_pooled_in_the_table(tmp_path: Path) -> None:
    first = SyntheticCell("native", "switch", {"threads": 2}, 180.0, 9e4, 0.5, 3_000)
    known = write_synthetic_run(tmp_path / "run", cells=[first, replace(first, repetition=2, worst_ns=12e4)])
    group = content_of(Run.open(known.folder)).groups[0]
    assert [series.data["label"] for series in group.series] == ["native", "native r2"]
    assert group.rows[0].statistics.count == 6_000
    assert group.rows[0].statistics.max_ns == pytest.approx(12e4)


def test_a_cell_without_an_interval_says_why(tmp_path: Path) -> None:
    cell = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.5, 3_000)
    cells = [replace(cell, platform=name, repetition=number) for name in ("native", "uml") for number in range(1, 6)]
    cells[0] = replace(cells[0], count=900)
    write_report(Run.open(write_synthetic_run(tmp_path / "run", cells=cells).folder), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    answer = page[page.index('id="answer"') : page.index('id="summary"')]
    assert (
        "<p>No interval and no ratio, as a repetition has too few samples for its 99.9th percentile: measure longer "
        "[native tick 68us].</p>"
    ) in answer
    assert "no ratio</small>" in answer


def test_damaged_samples_are_listed_and_the_rest_is_drawn(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=CELLS[:3])
    samples = known.find("native.alone.switch-2.r1").folder / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:-100])
    content = content_of(Run.open(known.folder))
    assert [(one.name, one.kind) for one in content.limits.missing] == [("native.alone.switch-2.r1", "damaged")]
    assert [group.title for group in content.groups] == ["Clock tick, loop of 68 µs", "Thread switch, 10 threads"]


def test_run_without_any_figure_still_gives_a_page(tmp_path: Path) -> None:
    broken = replace(CELLS[0], failure="the guest never said hello")
    known = write_synthetic_run(tmp_path / "run", cells=[broken])
    write_report(Run.open(known.folder), tmp_path / "report.html")
    assert "the guest never said hello" in (tmp_path / "report.html").read_text()


def test_names_from_outside_cannot_become_markup(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    cell = SyntheticCell(hostile, "switch", {"threads": 2}, 180.0, 9e4, 0.5, 3_000)
    known = write_synthetic_run(tmp_path / "run", cells=[cell], campaign=hostile)
    write_report(Run.open(known.folder), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    scripts = re.findall(r"<script(?: [^>]*)?>", page)
    assert len(scripts) == 4, "content, one envelope, the library, our script"


def test_report_that_cannot_be_written_names_the_place(known: KnownRun, tmp_path: Path) -> None:
    run = Run.open(known.folder)
    with pytest.raises(StealtimeError, match=f"folder {tmp_path}/none does not exist"):
        write_report(run, tmp_path / "none" / "report.html")
    with pytest.raises(StealtimeError, match="is a folder"):
        write_report(run, tmp_path)


def test_command_prints_one_document(known: KnownRun, tmp_path: Path) -> None:
    application = typer.Typer()
    application.command()(report)
    result = CliRunner().invoke(
        application, [str(known.folder), "-o", str(tmp_path / "r.html"), "--json"], catch_exceptions=False
    )
    assert result.exit_code == 0
    size = (tmp_path / "r.html").stat().st_size
    assert json.loads(result.stdout) == {"schema_version": 1, "path": str(tmp_path / "r.html"), "bytes": size}


def test_a_run_without_a_cell_says_so(tmp_path: Path) -> None:
    write_report(Run.open(write_synthetic_run(tmp_path / "run", cells=[]).folder), tmp_path / "report.html")
    assert "This run has no cell that can be drawn." in (tmp_path / "report.html").read_text()


def test_parameters_that_nobody_can_read_are_told_as_they_stand(tmp_path: Path) -> None:
    cell = SyntheticCell("native", "switch", {"threads": 2}, 180.0, 90_000.0, 0.5, 2_000)
    known = write_synthetic_run(tmp_path / "run", cells=[cell])
    (trial,) = known.cells.values()
    path = trial.folder / "trial.json"
    document = json.loads(path.read_text())
    document["cell"]["parameters"] = {"strands": 2}
    path.write_text(json.dumps(document))
    write_report(Run.open(known.folder), tmp_path / "report.html")
    assert "strands 2" in (tmp_path / "report.html").read_text()
