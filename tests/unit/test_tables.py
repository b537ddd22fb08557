"""The printed tables: units that fit, ratios to native, marks that are explained."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from stealtime.studies.latency.analysis.model import CellSummary, HeldBack, Period, RunSummary, Stats, TrialSummary
from stealtime.studies.latency.terminal.summary import tables

REPETITIONS = 5


def stats(floor_ns: float, max_ns: float, unresolved: tuple[str, ...] = ()) -> Stats:
    """Make figures whose 99.9th percentile lies half as far above the floor as the maximum."""
    percentiles = {f"p{name}_ns": floor_ns * 1.5 for name in ("50", "90", "99", "9999", "99999")}
    percentiles["p999_ns"] = (floor_ns + max_ns) / 2
    return Stats(
        count=1234567, floor_ns=floor_ns, min_ns=floor_ns, mean_ns=floor_ns, sd_ns=1.0, **percentiles, max_ns=max_ns,
        max_at_s=0.5, max_overhead_ns=max_ns - floor_ns, unresolved=list(unresolved),
    )  # fmt: skip


def cell(platform: str, figures: Stats | None, *reasons: str, periods: tuple[Period, ...] = ()) -> CellSummary:
    return CellSummary(
        platform=platform, scenario="alone", probe="tick", parameters={"loop_ns": 68_000}, valid=not reasons,
        reasons=list(reasons), limits=["RT throttling is on"], clock=None, stats=figures,
        periods=list(periods),
        trials=[
            TrialSummary(repetition=number, valid=True, reasons=[], stats=figures, folder="")
            for number in range(1, REPETITIONS + 1)
        ],
    )  # fmt: skip


def printed(*cells: CellSummary) -> str:
    console = Console(width=80, file=io.StringIO())
    summary = RunSummary(run_id="r", created_at=datetime.now(UTC), campaign="c", host={}, cells=list(cells))
    console.print(tables(summary))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row_of(text: str, start: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(start))


def test_the_steady_overhead_leads_with_its_interval_and_its_ratio_and_the_longest_follows() -> None:
    text = printed(cell("native", stats(68_000, 78_000)), cell("uml", stats(68_000, 2_068_000)))
    steady, _, longest = text.partition("The longest")
    assert row_of(steady, "native")[-1] == "5.00"
    assert row_of(steady, "  95 % interval")[-1] == "5-5"
    assert row_of(steady, "uml")[-1] == "1,000"
    assert row_of(steady, "  to native")[-1] == "200\N{MULTIPLICATION SIGN}"
    assert (row_of(longest, "native")[-1], row_of(longest, "uml")[-1]) == ("10.0", "2,000")


def test_emulated_is_compared_with_paravirt() -> None:
    text = printed(
        cell("qemu-tcg-emulated", stats(68_000, 6_068_000)), cell("qemu-tcg-paravirt", stats(68_000, 2_068_000))
    )
    assert row_of(text, "tcg emul./paravirt")[-1] == "3.00\N{MULTIPLICATION SIGN}"
    assert "to native" not in text.split("tick 68us")[0], "there is no native figure to compare with"


def test_what_is_invalid_is_marked_explained_and_compared_with_nothing() -> None:
    text = printed(cell("native", stats(68_000, 78_000), "the clock ran fast"), cell("uml", stats(68_000, 99_000)))
    steady, _, longest = text.partition("The longest")
    assert row_of(steady, "native")[-1] == "5.00!"
    assert row_of(longest, "native")[-1] == "10.0!"
    assert "to native" not in steady
    assert "the clock ran fast [native tick 68us]" in text


def test_a_failed_cell_has_no_figures() -> None:
    text = printed(cell("native", None, "the guest was gone"), cell("uml", stats(68_000, 99_000)))
    assert "failed" in text
    assert "the guest was gone [native tick 68us]" in text


def test_an_unresolved_percentile_is_marked_and_explained() -> None:
    text = printed(cell("native", stats(68_000, 78_000, ("p999_ns",))))
    assert "73.0*" in text
    assert "less than one sample lies beyond this percentile" in text


NOT_COUNTED = [
    ({"stats": stats(68_000, 78_000, ("p999_ns",))},
     "a repetition has too few samples for its 99.9th percentile: measure longer"),
    ({"stats": stats(68_000, 102_068_000),
      "held_back": HeldBack(cause="RT throttling", pause_ns=50e6, count=4, longest_ns=51e6, rest_max_ns=78_000.0,
                            rest_max_overhead_ns=10_000.0, rest_max_at_s=0.5)},
     "the 99.9th percentile of a repetition may be a pause of RT throttling"),
    ({"stats": stats(68_000, 68_000)},
     "the 99.9th percentile of a repetition is its floor, and a ratio needs more"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "because"), NOT_COUNTED, ids=["few samples", "pause", "floor"])
def test_a_figure_without_an_interval_says_why(changes: dict[str, object], because: str) -> None:
    native = cell("native", stats(68_000, 78_000))
    first, *others = native.trials
    native = native.model_copy(update={"trials": [first.model_copy(update=changes), *others]})
    text = printed(native, cell("uml", stats(68_000, 2_068_000)))
    steady, _, _ = text.partition("The longest")
    assert row_of(steady, "native")[-1] == "5.00~"
    assert row_of(steady, "uml")[-1] == "1,000"
    assert "to native" not in steady
    assert f"~ no interval and no ratio, as {because} [native tick 68us]" in " ".join(steady.split())


def test_too_few_repetitions_are_told_of_all_cells() -> None:
    cells = [cell(platform, stats(68_000, 78_000)) for platform in ("native", "uml")]
    steady, _, _ = printed(*(one.model_copy(update={"trials": one.trials[:2]}) for one in cells)).partition("The long")
    assert steady.count("5.00~") == 2
    assert steady.count("~") == 3, "one footnote is enough"
    assert "as a cell has 2 valid repetitions: --repetitions 4 or more [all cells]" in " ".join(steady.split())


def test_a_dash_for_an_unresolved_percentile_says_why() -> None:
    steady, _, _ = printed(cell("native", stats(68_000, 78_000, ("p999_ns",)))).partition("The longest")
    assert row_of(steady, "native")[-1] == "\N{EN DASH}~"
    assert "too few samples for its 99.9th percentile" in " ".join(steady.split())


def test_periods_are_told_in_words() -> None:
    tick = Period(
        period_s=0.004, rate_hz=250.0, cost_p50_ns=3100.0, cost_p90_ns=4000.0, events=500, coverage=1.0,
        lost_share=0.4, level_ns=1000.0, repetition=1, found_in_repetitions=3, searched_repetitions=4,
    )  # fmt: skip
    text = printed(cell("native", stats(68_000, 78_000), periods=(tick,)))
    assert "native: every 4.000 ms (250 Hz): 3.10 µs, in 3 of 4 repetitions" in text


def test_every_table_fits_80_columns() -> None:
    text = printed(cell("qemu-tcg-paravirt", stats(68_000, 2_068_000)), cell("native", stats(68_000, 78_000)))
    assert "…" not in text
