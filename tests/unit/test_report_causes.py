"""Causes as the report and ``show`` tell them: nothing is lost in adding up, and nothing unknown is hidden."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from latency_page import content_of, latency_page
from rich.console import Console
from synthetic_attribution import (
    EVENTS_LOST,
    JUDGED,
    NEIGHBOUR,
    RULE,
    SHORT_ONES,
    TICK,
    WORST,
    synthetic_attribution,
    synthetic_periodic,
    synthetic_tracing_overhead,
)
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.store.run import Run, Trial
from stealtime.studies.latency.attribution.cells import TINY_SHARE, Causes, gather_causes
from stealtime.studies.latency.attribution.families import LOOKS, family_of
from stealtime.studies.latency.attribution.model import (
    Cause,
    CauseShare,
    Segment,
    Shift,
    TracingOverhead,
    TrialAttribution,
)
from stealtime.studies.latency.attribution.not_attributed import NotAttributed
from stealtime.studies.latency.page.periodic import gather_periodic
from stealtime.studies.latency.page.spikes import drawn_segments, whole_parts, worst_spikes
from stealtime.studies.latency.terminal.causes import render_causes
from stealtime.studies.latency.wording.cause_wording import overhead_in_words, signed_duration
from stealtime.vocabulary.errors import StealtimeError

NATIVE = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 3_000, tick_hz=1000.0, traced=True)
UML = replace(NATIVE, platform="uml", scenario="contention-cpu")
CELLS = [NATIVE, replace(NATIVE, traced=False), UML, replace(UML, repetition=2)]
REFUSED = "uml.contention-cpu.tick-68us.traced.r2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(write_synthetic_run(tmp_path_factory.mktemp("runs") / "traced", cells=CELLS).folder)


@pytest.fixture(scope="module")
def causes(run: Run) -> Causes:
    return gather_causes(run, synthetic_attribution, synthetic_tracing_overhead)


@pytest.fixture(scope="module")
def page(run: Run, causes: Causes) -> str:
    content = content_of(run)
    return latency_page(content, causes, gather_periodic(content.summary, run, synthetic_periodic))


def refuse_second(trial: Trial) -> TrialAttribution:
    if trial.record.trial_id == REFUSED:
        raise NotAttributed("the host was not traced: tracefs is not mounted", hint="mount tracefs")
    return synthetic_attribution(trial)


def test_causes_of_all_repetitions_add_up_to_the_excess(causes: Causes) -> None:
    for cell in causes.cells:
        assert sum(line.lost_ns for line in cell.lines) == pytest.approx(cell.excess_ns)
        assert sum(line.share for line in cell.lines) == pytest.approx(1)
        assert sum(part.lost_ns for part in cell.stack) == pytest.approx(cell.excess_ns + cell.not_judged_ns)
        assert sum(part.share for part in cell.stack) == pytest.approx(1)
    uml = causes.cells[1]
    assert (uml.judged, uml.not_judged) == (2 * JUDGED, 2 * (WORST - JUDGED))


def test_what_is_not_known_is_always_shown(causes: Causes, page: str) -> None:
    assert causes.families[-2:] == ("unexplained", "not_judged")
    for cell in causes.cells:
        assert cell.lines[-1].family == "unexplained"
        assert cell.stack[-1].family == "not_judged"
    assert page.count(">not judged</th>") == len(causes.cells)


def test_cell_without_unexplained_time_says_so(run: Run) -> None:
    def explained(trial: Trial) -> TrialAttribution:
        attribution = synthetic_attribution(trial)
        shares = [share for share in attribution.shares if share.cause.kind != "unexplained"]
        return attribution.model_copy(update={"shares": shares})

    line = gather_causes(run, explained, synthetic_tracing_overhead).cells[0].lines[-1]
    assert (line.label, line.lost_ns, line.spikes) == ("unexplained", 0, 0)


def test_unexplained_time_stands_last_even_if_it_is_the_largest(run: Run) -> None:
    def mostly_unexplained(trial: Trial) -> TrialAttribution:
        attribution = synthetic_attribution(trial)
        shares = [
            share.model_copy(update={"lost_ns": share.lost_ns * (100 if share.cause.kind == "unexplained" else 1)})
            for share in attribution.shares
        ]
        return attribution.model_copy(update={"shares": shares})

    lines = gather_causes(run, mostly_unexplained, synthetic_tracing_overhead).cells[0].lines
    assert lines[-1].family == "unexplained"
    assert lines[-1].lost_ns == max(line.lost_ns for line in lines)


def test_refused_trial_stands_with_its_reason_beside_the_others(run: Run) -> None:
    causes = gather_causes(run, refuse_second, synthetic_tracing_overhead)
    uml = causes.cells[1]
    assert [refused.trial for refused in uml.refused] == [REFUSED]
    assert [one.repetition for one in uml.attributed] == [1]
    page = latency_page(content_of(run), causes, {})
    assert "the host was not traced: tracefs is not mounted" in page
    assert "mount tracefs" in page


def test_longest_spikes_of_all_repetitions_are_chosen(causes: Causes) -> None:
    durations = [spike.duration_ns for spike, _ in causes.cells[1].worst]
    assert len(durations) == WORST
    assert durations == sorted(durations, reverse=True)
    assert {one.repetition for _, one in causes.cells[1].worst} == {1, 2}


def test_reader_can_add_the_parts_of_every_spike_up(page: str) -> None:
    rows = re.findall(r'<tr id="traced-\d+-spike-\d+".*?</tr>', page, re.DOTALL)
    judged = [row for row in rows if "not judged" not in row]
    assert len(rows) == 2 * WORST
    assert len(judged) > JUDGED
    for row in judged:
        excess, *parts = [int(text.replace(",", "")) for text in re.findall(r"([\d,]+) ns", row)]
        assert sum(parts) == excess


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=12))
def test_rounded_parts_add_up(parts: list[float]) -> None:
    whole = whole_parts(parts, sum(parts))
    assert sum(whole) == round(sum(parts))
    assert all(abs(rounded - part) <= 1 for rounded, part in zip(whole, parts, strict=True))


@given(st.lists(st.tuples(st.floats(0.5, 5_000), st.booleans()), min_size=1, max_size=300))
def test_drawn_segments_lose_no_time_and_stay_in_order(pieces: list[tuple[float, bool]]) -> None:
    segments, at = [], 0.0
    for duration, is_tick in pieces:
        cause = TICK if is_tick else None
        segments.append(
            Segment(track="machine", start_ns=at, duration_ns=duration, cause=cause, text=str(cause is None))
        )
        at += duration
    drawn = drawn_segments(segments, at)
    assert sum(segment["ns"] for segment in drawn) == pytest.approx(at, abs=0.06 * len(drawn))
    assert [segment["from"] for segment in drawn] == sorted(segment["from"] for segment in drawn)
    assert len(drawn) <= 502


def test_burst_of_short_segments_is_drawn_together_and_says_what_it_holds(causes: Causes) -> None:
    machine = worst_spikes(causes.cells[0])[0].drawing["tracks"][0]["segments"]
    assert 10 < len(machine) < SHORT_ONES / 4
    merged = machine[-1]
    assert merged["family"] == "timer_tick"
    assert re.match(r"\d+ short ones: local_timer ", merged["text"])


def test_tiny_causes_are_folded_and_still_add_up(run: Run) -> None:
    def with_tiny(trial: Trial) -> TrialAttribution:
        attribution = synthetic_attribution(trial)
        tiny = [
            CauseShare(
                cause=Cause(layer="host", kind="host_interrupt", name=f"eth{number}"),
                lost_ns=100.0,
                share=0.0,
                spikes=1,
                largest_ns=100.0,
            )
            for number in range(9)
        ]
        return attribution.model_copy(update={"shares": [*attribution.shares, *tiny]})

    causes = gather_causes(run, with_tiny, synthetic_tracing_overhead)
    cell = causes.cells[0]
    assert [line.label for line in cell.folded(TINY_SHARE)] == [f"host interrupt eth{number}" for number in range(9)]
    page = latency_page(content_of(run), causes, {})
    table = page[page.index('<table class="causes">') : page.index('<details class="tiny">')]
    assert "9 smaller causes, listed below</th><td>900.0 ns</td>" in table
    assert "eth0" not in table
    assert "eth0" in page


def test_every_kind_of_cause_has_a_look() -> None:
    from typing import get_args

    from stealtime.studies.latency.attribution.model import Kind

    assert {family_of(kind, None) for kind in get_args(Kind)} == set(get_args(Kind)) & set(LOOKS)
    assert family_of(NEIGHBOUR.kind, NEIGHBOUR.name) == "neighbour"
    assert family_of("thread", "neighbour 2") == "neighbour"
    assert family_of("a kind of tomorrow", None) == "unexplained"


def test_page_tells_rule_time_line_losses_and_views(page: str) -> None:
    section = page[page.index('id="causes"') : page.index('id="summary"')]
    for words in (
        RULE,
        "exchanges, refined by 812 paired events, error at most 412 ns",
        f"{EVENTS_LOST:,} lost",
        "vectors are not traced in the machine",
        "this kernel reports no steal time",
        "agree to 0.9 %",
    ):
        assert words in section


def test_page_shows_the_tracing_overhead(page: str) -> None:
    assert "+24.0 ns" in page
    assert "tracing moved the floor up by 24.0 ns, the 99.9th percentile up by 1.90 µs" in page
    assert "the pairs do not agree on a direction" in page


def test_damaged_files_are_told_and_touch_nothing_else(run: Run) -> None:
    def damaged(trial: Trial) -> TrialAttribution:
        if trial.record.trial_id == REFUSED:
            raise StealtimeError("host_trace.parquet is damaged: it is truncated at 812 bytes")
        return synthetic_attribution(trial)

    def no_cost(_: Run) -> list[TracingOverhead]:
        raise StealtimeError("samples.parquet is damaged")

    causes = gather_causes(run, damaged, no_cost)
    assert causes.cells[1].refused[0].reason == "host_trace.parquet is damaged: it is truncated at 812 bytes"
    assert len(causes.cells[1].attributed) == 1
    assert "Not known: samples.parquet is damaged." in latency_page(content_of(run), causes, {})


def cost(pairs: int, floor: Shift, p999: Shift, maximum: Shift) -> TracingOverhead:
    return TracingOverhead(
        cell="native", pairs=pairs, floor_shift_ns=floor, p999_shift_ns=p999, max_shift_ns=maximum
    )  # fmt: skip


@pytest.mark.parametrize("pairs", [1, 3, 6])
def test_few_pairs_that_agree_give_medians_and_no_claim(pairs: int) -> None:
    words = overhead_in_words(cost(pairs, *[Shift(median_ns=10.0, min_ns=9.0, max_ns=11.0)] * 3))
    assert "moved" not in words
    assert "the floor +10.0 ns" in words
    assert "this may be chance, 7 pairs that agree would not be" in words


def test_tracing_that_costs_nothing_is_claimed_to_cost_in_5_percent_at_most() -> None:
    random = np.random.default_rng(9)
    claims = 0
    for _ in range(1_000):
        # The three figures of a cell in seven pairs of equal trials.
        shifts = random.standard_normal((3, 7))
        told = [Shift(median_ns=float(np.median(x)), min_ns=x.min(), max_ns=x.max()) for x in shifts]
        claims += "moved" in overhead_in_words(cost(7, *told))
    assert claims <= 65, "5 % of 1,000 are 50; more than 65 are 1 in 60"


def test_shift_below_a_cycle_is_none() -> None:
    assert [signed_duration(ns) for ns in (0.04, -0.09, -0.5, 24.0)] == ["0", "0", "-0.500 ns", "+24.0 ns"]


def test_periods_are_matched_with_traced_events(page: str) -> None:
    assert "matched with traced events: every 1.000 ms: timer tick" in page


def test_untraced_run_says_that_nothing_is_known(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=[replace(NATIVE, traced=False)])
    run = Run.open(known.folder)
    causes = gather_causes(run)
    assert causes.cells == ()
    assert render_causes(causes) is None
    assert "No trial of this run was traced" in latency_page(content_of(run), causes, {})


def test_figures_are_drawn_without_tracing_where_that_was_measured(run: Run) -> None:
    content = content_of(run)
    by_scenario = {group.scenario: group for group in content.groups}
    assert [series.identity for series in by_scenario["alone"].series] == ["cell-0-1"]
    assert [remark.code for remark in by_scenario["alone"].rows[0].remarks] == []
    assert [remark.code for remark in by_scenario["contention-cpu"].rows[0].remarks] == ["traced"]


def test_show_prints_a_table_for_each_traced_cell(causes: Causes) -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(render_causes(causes))
    printed = capture.get()
    assert "uml, contention-cpu: Clock tick, loop of 68 µs" in printed
    assert re.search(r"host: preempted by neighbour 1 +[\d.]+ ms +3\d\.\d %", printed)
    assert re.search(r"not judged +[\d.]+ ms +\S +4\b", printed)
    assert "error at most 412 ns; 2,468 events lost" in printed
    assert "+11.0 ns .." in printed
