"""The answer of the study of latency: what one sample in a thousand takes longer, and the longest of all, once."""

import measured_campaign
from test_answers import answer_of, shown, summary_of, unquoted

from stealtime.report.strangers import StrangersFigures
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.rows import columns_of


def latency_cells(**tails_ns: list[float]) -> list[CellSummary]:
    """Cells of `tick` by platform, whose repetitions have these overheads at the 99.9th percentile."""
    cells = []
    for platform, tail_ns in tails_ns.items():
        one = measured_campaign.cell(platform.replace("_", "-"), "alone", "tick", 9e6)
        (trial, *_), floor_ns = one.trials, measured_campaign.FLOOR_NS
        assert trial.stats is not None
        trials = [
            trial.model_copy(
                update={
                    "repetition": number,
                    "stats": trial.stats.model_copy(update={"p999_ns": floor_ns + tail}),
                }
            )
            for number, tail in enumerate(tail_ns, 1)
        ]
        stats = trials[0].stats
        cells.append(one.model_copy(update={"trials": trials, "stats": stats}))
    return cells


def test_latency_answers_with_one_sample_in_a_thousand_against_native() -> None:
    cells = latency_cells(native=[70e3, 80e3, 78e3, 75e3], qemu_tcg_paravirt=[150e3, 190e3, 170e3, 180e3])
    summary = summary_of(cells)
    (answer,) = summary.answers
    (column,) = columns_of(cells)
    guest, native = column.rows["qemu-tcg-paravirt"], column.rows["native"]
    tail, base, ratio = guest.tail, native.tail, guest.tail_ratio
    assert tail is not None
    assert base is not None
    assert ratio is not None
    assert answer.sentence == (
        "qemu-tcg-paravirt loses 172 µs (140 µs to 220 µs) at the 99.9th percentile of tick 68us, native 75.7 µs "
        "(66 µs to 86 µs): 2.27 times as much (1.95 to 2.65)"
    )
    figures = {(one.platform, one.name): (one.value, one.low, one.high) for one in answer.figures}
    assert figures["qemu-tcg-paravirt", "tail_overhead_ns"] == (tail.value, tail.low, tail.high)
    assert figures["native", "tail_overhead_ns"] == (base.value, base.low, base.high)
    assert figures["qemu-tcg-paravirt", "tail_ratio"] == (ratio.value, ratio.low, ratio.high)
    assert figures["native", "worst_overhead_ns"][0] == native.cell.worst_overhead_ns
    assert answer.trusted
    table = shown(summary)
    for words in ("172", "140-220", "75.7", "66-86", "2.27\N{MULTIPLICATION SIGN}"):
        assert words in table, "the table has the same figures"
    ends = [f"{one.removesuffix(' µs')}" for one in ("140 µs", "220 µs", "66 µs", "86 µs", "1.95", "2.65")]
    assert set(unquoted(answer, "99.9th 68us")) <= set(ends), "all other numbers are quoted"


def test_latency_without_repetitions_or_native_says_what_to_do() -> None:
    few = answer_of(latency_cells(native=[70e3], uml=[150e3]), campaign="quick")
    assert (few.trusted, few.hint) == (False, "stealtime run quick --repetitions 4")
    assert few.because == ["there is no interval: a cell has 1 valid repetition"]
    assert "150 µs (no interval)" in few.sentence
    alone = answer_of(latency_cells(uml=[150e3, 160e3, 155e3, 152e3]))
    assert alone.because == ["native was not measured, or is not valid"]
    assert alone.hint == "measure native beside it: stealtime run FILE.toml -P native,uml"
    same = answer_of(latency_cells(native=[150e3, 161e3, 155e3, 152e3], uml=[150e3, 160e3, 155e3, 152e3]))
    assert same.sentence.endswith(", so no difference is shown")
    only_native = answer_of(latency_cells(native=[70e3, 80e3, 78e3, 75e3]))
    assert only_native.sentence.startswith("native loses 75.7 µs")
    assert only_native.trusted
    (broken,) = latency_cells(uml=[1e3])
    nothing = answer_of([broken.model_copy(update={"valid": False, "reasons": ["the clock ran away"]})])
    assert nothing.told == "not judged, because uml tick 68us is invalid: the clock ran away."
    assert nothing.hint is not None


def test_the_longest_of_all_is_told_once() -> None:
    cells = latency_cells(uml=[70e3, 80e3, 78e3, 75e3])
    (short,) = latency_cells(uml=[7e3, 8e3, 7.8e3, 7.5e3])
    too_few = {"unresolved": ["p999_ns"], "max_ns": 277e6, "max_overhead_ns": 276e6}
    trials = [
        one.model_copy(update={"stats": one.stats and one.stats.model_copy(update=too_few)}) for one in short.trials
    ]
    wakeup = {"probe": "wakeup", "parameters": {"interval_ns": 1_000_000}}
    longest = short.model_copy(update={**wakeup, "trials": trials, "stats": trials[0].stats})
    lines = answer_of([*cells, longest]).lines
    assert [line.count("276 ms of wakeup 1ms") for line in lines] == [1], lines


def test_a_line_of_a_cell_that_was_not_alone_says_so() -> None:
    """That the sentence may be trusted says nothing of the other cells."""
    cells = latency_cells(native=[70e3, 80e3, 78e3, 75e3])
    lower = latency_cells(native=[7e3, 8e3, 7.8e3, 7.5e3])
    other = [one.model_copy(update={"probe": "wakeup", "parameters": {"interval_ns": 1_000_000}}) for one in lower]
    crowd = StrangersFigures(
        trials=4, limited=4, not_alone=4, cpus=[1], watched_s=8.0, taken_s=7.0, taken_percent_median=97.0,
        taken_percent_max=99.0, strangers_percent_median=97.0, waited_percent_median=None, steal_percent_median=None,
        who=["rustc"],
    )  # fmt: skip
    beside = [one.model_copy(update={"strangers": crowd}) for one in other]
    assert [line.endswith(" (not alone)") for line in answer_of([*cells, *other]).lines] == [False, False]
    answer = answer_of([*cells, *beside])
    assert answer.trusted
    assert [line.endswith(" (not alone)") for line in answer.lines] == [False, True]
