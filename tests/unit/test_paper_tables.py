"""What is printed of a run beside published figures, as a reader sees it in 80 columns."""

import io

import pytest
from measured_campaign import Factor, campaign_cells, cell, run_of
from rich.console import Console, RenderableType
from syrupy.assertion import SnapshotAssertion

from stealtime.report.claims.comparison import compare_with_published
from stealtime.report.claims.library import find_published
from stealtime.report.claims.model import PublishedRow
from stealtime.report.terminal.paper_tables import tables_of_run
from stealtime.report.terminal.published import join_subjects, render_published_comparison
from stealtime.studies.latency.analysis.model import RunSummary

COLUMNS = 80


def printed(renderable: RenderableType) -> str:
    file = io.StringIO()
    Console(width=COLUMNS, file=file).print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def tables(run: RunSummary) -> str:
    found = tables_of_run(run, "latency", wanted=None)
    assert found is not None
    return printed(found)


def poor_switches(row: PublishedRow, role: str) -> float:
    """The emulated machine switches four times as slowly as it should."""
    return 4.0 if role == "emulated" and row.test != "tick" else 1.0


def two_cpus(factor: Factor = poor_switches) -> RunSummary:
    """A run on a host of two CPUs: a scenario is skipped, others are scaled, one cell is invalid, one was too short."""
    cells = []
    for one in campaign_cells(factor):
        if one.scenario.startswith("all"):
            cells.append(one.model_copy(update={"scaled": "2 CPUs for the paper's 4: 1 neighbour for its 3"}))
        elif one.scenario != "two-to-all-memory":
            cells.append(one)
    for new in (
        cell("qemu-tcg-paravirt", "one-to-all", "switch-1000", 650e3, "the clock ran 900 ppm fast"),
        cell("qemu-tcg-emulated", "contention-memory", "tick", 21e6, count=4_100),
    ):
        cells = [new if one.key == new.key else one for one in cells]
    return run_of(cells, skipped={"two-to-all-memory": "2 CPUs would make it all-to-all-memory again"})


def test_the_tables_of_a_run_are_numbered_and_laid_out_like_the_papers(snapshot: SnapshotAssertion) -> None:
    assert tables(two_cpus()) == snapshot


def test_a_comparison_gives_theirs_beside_ours_and_says_what_agrees(snapshot: SnapshotAssertion) -> None:
    comparison = compare_with_published(two_cpus(), find_published("hyperv2013"))
    assert printed(render_published_comparison(comparison)) == snapshot


def test_nothing_is_cut_off_also_where_there_are_as_many_samples_as_in_the_paper() -> None:
    cells = [
        one.model_copy(update={"stats": one.stats.model_copy(update={"count": 50_000_000})})
        for one in campaign_cells(lambda _row, _role: 1.0)
        if one.stats is not None
    ]
    run = run_of(cells)
    for text in (
        tables(run),
        printed(render_published_comparison(compare_with_published(run, find_published("hyperv2013")))),
    ):
        assert "…" not in text
        assert "50.0 M" in text
        assert max(len(line) for line in text.splitlines()) <= COLUMNS


def test_a_figure_of_tcg_is_labelled_in_every_table() -> None:
    text = tables(run_of(campaign_cells()))
    assert "emulated (TCG)" in text
    assert "(KVM)" not in text
    on_kvm: dict[str, str] = {"bare": "native", "emulated": "qemu-kvm-emulated", "paravirt": "qemu-kvm-paravirt"}
    text = tables(run_of(campaign_cells(platforms=on_kvm)))
    assert "emulated (KVM)" in text
    assert "TCG" not in text


def test_the_papers_own_figures_come_out_as_they_are_printed_there() -> None:
    lines = printed(
        render_published_comparison(compare_with_published(run_of(campaign_cells()), find_published("hyperv2013")))
    ).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Table 3:"))
    row = next(line for line in lines[start:] if line.startswith("paravirtual (TCG)"))
    assert row.split() == [
        "paravirtual", "(TCG)", "63", "µs", "63.0", "µs", "150,000", "687", "µs", "687", "µs", "150,000",
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", [None, False])
def test_a_run_of_another_campaign_has_no_paper_tables(wanted: bool | None) -> None:
    quick = run_of(campaign_cells()).model_copy(update={"campaign": "quick"})
    assert tables_of_run(quick, "latency", wanted=wanted) is None


def test_the_tables_of_another_campaign_can_be_asked_for_and_those_of_this_one_left_out() -> None:
    run = run_of(campaign_cells())
    other = tables_of_run(run.model_copy(update={"campaign": "mine"}), "latency", wanted=True)
    assert other is not None
    assert printed(other) == tables(run)
    assert tables_of_run(run, "latency", wanted=False) is None


def test_the_verdicts_are_counted() -> None:
    comparison = compare_with_published(run_of(campaign_cells()), find_published("hyperv2013"))
    assert comparison.summary_sentence == "Of 57 claims 57 agree with the paper's, 0 disagree, 0 could not be judged."


def test_subjects_that_differ_in_the_test_alone_are_named_together() -> None:
    assert join_subjects(["a, 1, tick", "a, 1, switch-2", "b, tick"]) == "a, 1, tick, switch-2; b, tick"
