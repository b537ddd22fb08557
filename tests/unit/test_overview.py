"""What fits a screen: a run of ``quick`` leaves room for its answer on 80 columns and 40 lines, whatever went wrong."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import Command
from rich.console import Console
from synthetic_run import SyntheticCell, write_synthetic_run
from test_tables import row_of, stats

from stealtime.lab.platforms.traits import TRAITS
from stealtime.report.strangers import StrangersFigures
from stealtime.report.terminal.run import print_tables
from stealtime.studies.latency.analysis.model import CellSummary, HeldBack, RunSummary, TrialSummary

LEFT_FOR_THE_ANSWER = 13
"""With its hint and lines, where all is said that can be against it; and the name of the run and what follows."""
OTHERS = StrangersFigures(
    trials=4, limited=4, not_alone=4, cpus=[1], watched_s=8.0, taken_s=4.0, taken_percent_median=50.0,
    taken_percent_max=100.0, strangers_percent_median=50.0, waited_percent_median=None, steal_percent_median=None,
    who=["rustc", "process_api", "memfd:sealed-91", "dpkg"],
)  # fmt: skip
PROBES = (
    ("tick", {"loop_ns": 68_000}),
    *(("switch", {"threads": count}) for count in (2, 10, 100, 1000)),
    ("wakeup", {"interval_ns": 1_000_000}),
)


def cell(
    platform: str,
    probe: str,
    parameters: dict[str, int],
    *,
    repetitions: int = 4,
    strangers: StrangersFigures | None = None,
) -> CellSummary:
    figures = stats(1_000, 11_000 if platform == "native" else 2_001_000)
    return CellSummary(
        platform=platform, scenario="alone", probe=probe, parameters=dict(parameters), valid=True, reasons=[],
        limits=["RT throttling is on: SCHED_FIFO may run 950000 us of every 1000000 us",
                f"the clock of {platform} was compared for 2 s only (a longer trial tells more)"],
        clock=None, stats=figures, periods=[], strangers=strangers,
        trials=[
            TrialSummary(repetition=number, valid=True, reasons=[], stats=figures, folder="")
            for number in range(1, repetitions + 1)
        ],
    )  # fmt: skip


def printed(cells: list[CellSummary]) -> str:
    console = Console(width=80, file=io.StringIO())
    summary = RunSummary(run_id="r", created_at=datetime.now(UTC), campaign="quick", host={}, cells=cells)
    print_tables(summary, console, everything=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("count", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("repetitions", [1, 4])
def test_quick_leaves_room_for_its_answer(count: int, repetitions: int) -> None:
    platforms = list(TRAITS)[:count]
    assert len(platforms) == count
    cells = [cell(name, *probe, repetitions=repetitions, strangers=OTHERS) for name in platforms for probe in PROBES]
    text = printed(cells)
    assert len(text.splitlines()) <= 40 - LEFT_FOR_THE_ANSWER
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    for platform in platforms:
        assert row_of(text, platform), platform
    assert "limits: RT throttling is on (all cells)" in text


def test_the_ratio_to_native_stands_with_its_interval_and_the_longest_below() -> None:
    text = printed([cell(name, *PROBES[0]) for name in ("native", "uml")])
    assert row_of(text, "native")[-1] == "5.00"
    uml = text.partition("\numl")[2]
    assert row_of(uml, "  to native")[-1] == "200\N{MULTIPLICATION SIGN}"
    assert row_of(uml, "  95 % interval")[-1].startswith("200")
    assert row_of(uml, "  the longest")[-1] == "2,000"


def test_a_mark_is_explained_once_with_how_many_cells_it_is_about() -> None:
    held_back = HeldBack(
        cause="RT throttling", pause_ns=5e7, count=1, longest_ns=5e7, rest_max_ns=2_000.0,
        rest_max_overhead_ns=1_000.0, rest_max_at_s=0.5,
    )  # fmt: skip
    few = cell("uml", *PROBES[0], repetitions=1)
    text = printed([cell("native", *PROBES[0]).model_copy(update={"held_back": held_back}), few])
    assert "† without what the kernel's own limit on real-time threads explains" in text
    assert "may be a pause" not in text
    assert text.count("~ no ratio, as ") == 1
    assert "(1 of 2 cells)" in text


def test_a_longest_that_may_be_a_pause_is_not_said_to_be_without_any() -> None:
    unseen = HeldBack(
        cause="RT throttling", pause_ns=5e7, unseen="nobody watched", count=0, longest_ns=None, unproven=1,
        rest_max_ns=5e7, rest_max_overhead_ns=4.99e7, rest_max_at_s=0.5,
    )  # fmt: skip
    text = printed([cell("native", *PROBES[0]).model_copy(update={"held_back": unseen}), cell("uml", *PROBES[0])])
    assert row_of(text, "  the longest")[-1].endswith("\N{SECTION SIGN}")
    assert "may be a pause of the kernel's own limit on real-time threads" in text
    assert "without what the kernel's own limit" not in text


def test_what_must_not_be_used_is_said_whole() -> None:
    reason = "the clock ran 900 ppm fast: of the host's exchanges before and after"
    wrong = cell("uml", *PROBES[0]).model_copy(update={"valid": False, "reasons": [reason]})
    text = " ".join(printed([cell("native", *PROBES[0]), wrong]).split())
    assert f"! must not be used: {reason} [uml tick 68us]" in text


def test_show_tells_where_every_figure_is(stealtime: Command, tmp_path: Path) -> None:
    cells = [SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 4e5, 0.4, 2_000)]
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=cells)
    short = stealtime("show", "--runs", str(tmp_path))
    everything = stealtime("show", "--runs", str(tmp_path), "--all")
    assert f"every figure: stealtime show 20261121T195500Z-only-3f2a --runs {tmp_path} --all" in short.out
    assert "p50" not in short.out
    assert "p50" in everything.out
    assert len(short.out.splitlines()) < len(everything.out.splitlines())
    assert short.code == everything.code
