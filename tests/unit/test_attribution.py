"""From a trial on disk with traces to causes: what is read, refused, chosen and told."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from synthetic_run import UNITS_PER_S, SyntheticCell, write_synthetic_run

from stealtime.cli.travelling import prepare_to_travel
from stealtime.merging.tables import tables_of
from stealtime.report.page.html import write_report
from stealtime.report.terminal.run import print_explanations
from stealtime.store.model import HostViews
from stealtime.store.run import Run, Trial
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.store.time_line import ClocksNotAligned, allowed_offsets
from stealtime.studies.latency.analysis import series
from stealtime.studies.latency.analysis.series import load_series
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.attribution.attribute import NotAttributed, attribute_trial
from stealtime.studies.latency.attribution.model import Cause
from stealtime.studies.latency.attribution.periodic_causes import periodic_causes
from stealtime.studies.latency.attribution.tracing_overhead import tracing_overheads
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Absent, Value
from stealtime.wire.message import TracingOutcome

PROBE = 4242
START_TSC = 8_123_456_789_012
START_RAW_NS = 3_868_312_757_000
FLOOR_NS = 68_000.0
TICK_SHARE = 0.9
"""Of a sample's overhead that the made-up trace lays to the timer tick; the rest is the way in and out."""
SWITCH, VECTOR_ENTRY, VECTOR_EXIT, LOST = 0, 6, 7, 12


def tick_cell(**changes: Any) -> SyntheticCell:
    settings: dict[str, Any] = {"tick_cost_ns": 30_000.0, "traced": True} | changes
    return SyntheticCell("native", "tick", {"loop_ns": 68_000}, FLOOR_NS, 3_000_000.0, 0.31, 8_000, **settings)


def tracing(duration_s: float, events: int) -> dict[str, Any]:
    start = {"tsc": START_TSC, "monotonic_raw_ns": START_RAW_NS, "monotonic_ns": START_RAW_NS, "bracket_tsc": 64}
    elapsed_ns = round((duration_s + 0.1) * 1e9)
    end = {
        "tsc": START_TSC + round((duration_s + 0.1) * UNITS_PER_S),
        "monotonic_raw_ns": START_RAW_NS + elapsed_ns,
        "monotonic_ns": START_RAW_NS + elapsed_ns,
        "bracket_tsc": 64,
    }
    present = {"value": True}
    groups = {"sched": present, "interrupts": present, "vectors": present, "softirqs": {"absent": "no such event"}}
    return {
        "clock": "x86-tsc", "tsc_hz": UNITS_PER_S, "start": start, "end": end, "events": events, "lost": 0,
        "groups": groups,
        "names": ["local_timer", "neighbour"], "findings": [],
    }  # fmt: skip


def to_table(rows: list[tuple[int, ...]]) -> Any:
    columns = zip(zip(*rows, strict=True), TRACE_SCHEMA, strict=True)
    return pa.table([pa.array(list(column), field.type) for column, field in columns], TRACE_SCHEMA)


def write_trace(folder: Path, rows: list[tuple[int, ...]], duration_s: float) -> None:
    """Put a trace of the host beside a made-up trial."""
    pq.write_table(to_table(sorted(rows)), folder / "host_trace.parquet")
    record = json.loads((folder / "trial.json").read_text())
    record["host_tracing"] = tracing(duration_s, len(rows))
    (folder / "trial.json").write_text(json.dumps(record))


def trace_ticks(folder: Path) -> list[tuple[int, ...]]:
    """Make a tick of most of the overhead of every sample that has one; the longest is a neighbour's."""
    durations = pq.read_table(folder / "samples.parquet")["duration"].to_numpy().astype(np.int64)
    starts = START_TSC + np.cumsum(durations) - durations
    floor = round(FLOOR_NS * UNITS_PER_S / 1e9)
    rows: list[tuple[int, ...]] = [(START_TSC - 10, 0, SWITCH, 0, 0, PROBE, 4, 1)]
    for row in np.flatnonzero(durations > floor + 10_000):
        begin, lost = int(starts[row]) + 1_000, round(TICK_SHARE * int(durations[row] - floor))
        if durations[row] == durations.max():
            rows += [
                (begin, 0, SWITCH, PROBE, 0, 77, 2, 1),
                (begin + lost, 0, SWITCH, 77, 0, PROBE, 4, 1),
            ]
        else:
            rows += [
                (begin, 0, VECTOR_ENTRY, PROBE, 236, 0, 0, 0),
                (begin + lost, 0, VECTOR_EXIT, PROBE, 236, 0, 0, 0),
            ]
    return rows


@pytest.fixture
def traced(tmp_path: Path) -> Trial:
    known = write_synthetic_run(tmp_path / "run", cells=[tick_cell()])
    (cell,) = known.cells.values()
    write_trace(cell.folder, trace_ticks(cell.folder), cell.duration_s)
    return Run.open(known.folder).trials[0]


def test_shares_add_up_to_the_excess_and_name_who_took_it(traced: Trial) -> None:
    found = attribute_trial(traced)
    p50_ns = load_series(traced).summary()["p50_ns"]
    assert found.threshold_ns == pytest.approx(p50_ns + 0.1 * FLOOR_NS, abs=2.0)
    assert found.judged == found.spikes > 100
    assert sum(share.lost_ns for share in found.shares) == pytest.approx(found.excess_ns, rel=1e-9)
    assert sum(share.share for share in found.shares) == pytest.approx(1.0)
    by_kind = {share.cause.kind: share for share in found.shares}
    assert set(by_kind) == {"timer_tick", "thread", "unexplained"}
    assert by_kind["unexplained"].share == pytest.approx(1 - TICK_SHARE, abs=0.005)
    assert by_kind["thread"].cause == Cause(layer="machine", kind="thread", name="neighbour")
    assert by_kind["thread"].spikes == 1
    assert found.trace.steps == [
        "the host was traced without softirqs (no such event): softirqs are unexplained,"
        " or part of the interrupt before them"
    ]
    assert found.time_line.error_ns == 0.0


def test_the_worst_come_with_parts_and_time_lines_that_tile_them(traced: Trial) -> None:
    found = attribute_trial(traced, worst=5)
    assert [spike.duration_ns for spike in found.worst] == sorted((it.duration_ns for it in found.worst), reverse=True)
    assert len(found.worst) == 5
    first = found.worst[0]
    assert first.duration_ns == pytest.approx(3_000_000.0, abs=1.0)
    assert first.parts[0].cause.label == "thread neighbour"
    for spike in found.worst:
        assert sum(part.ns for part in spike.parts) == pytest.approx(spike.excess_ns)
        assert sum(segment.duration_ns for segment in spike.segments) == pytest.approx(spike.duration_ns)
        assert [segment.text for segment in spike.segments][::2] == ["the probe ran", "the probe ran"]


def test_causes_travel_with_the_longest_samples(traced: Trial) -> None:
    run = Run.open(traced.folder.parents[1])
    prepare_to_travel(run)
    table = pq.read_table(traced.folder / "longest.parquet").to_pydict()
    assert table["cause"][0] == "thread neighbour"
    by_index = {spike.index: spike for spike in attribute_trial(traced, worst=256).worst}
    for index, cause in zip(table["index"], table["cause"], strict=True):
        assert cause == (by_index[index].parts[0].cause.label if index in by_index else None)
    (row,) = tables_of(run).rows
    assert row.cause == "thread neighbour"
    assert (run.folder / "trials.parquet").is_file()


def test_a_threshold_that_was_asked_for_chooses_the_spikes(traced: Trial) -> None:
    found = attribute_trial(traced, threshold_ns=2_999_000.0)
    assert (found.spikes, found.threshold_ns) == (1, 2_999_000.0)
    with pytest.raises(StealtimeError, match="was not measured"):
        attribute_trial(Trial(traced.folder, traced.record.model_copy(update={"outcome": None})))


def test_spikes_beside_lost_events_are_not_judged(traced: Trial) -> None:
    rows = trace_ticks(traced.folder)
    lost_at = sorted(rows)[len(rows) // 2][0] - 1
    write_trace(traced.folder, [*rows, (lost_at, 0, LOST, 0, 33, 0, 0, 2**32 - 1)], 3.0)
    found = attribute_trial(Run.open(traced.folder.parents[1]).trials[0])
    assert 1 <= found.not_judged <= 2
    assert found.judged + found.not_judged == found.spikes
    assert found.total_lost_ns > found.excess_ns


def change_tracing(trial: Trial, **changes: Any) -> Trial:
    """Give the trial with other facts of its host's recording."""
    assert trial.record.host_tracing is not None
    tracing = trial.record.host_tracing.model_copy(update=changes)
    return Trial(trial.folder, trial.record.model_copy(update={"host_tracing": tracing}))


def test_a_followed_thread_that_no_event_tells_of_is_not_attributed(traced: Trial) -> None:
    rows = trace_ticks(traced.folder)
    # The same numbers in places that hold no thread.
    others = [(*row[:3], PROBE + 1, PROBE, PROBE + 1, *row[6:]) for row in rows]
    write_trace(traced.folder, others, 1.0)
    told = f"no event of the trace is of the thread that is to be followed: {PROBE}"
    with pytest.raises(NotAttributed, match=told):
        attribute_trial(Run.open(traced.folder.parents[1]).trials[0])


def test_ids_of_another_pid_namespace_are_not_taken_for_each_other(traced: Trial) -> None:
    text = "the trace numbers threads as the initial PID namespace does"
    finding = Finding(code="thread_ids_unknown", level="limits", text=text, hint="run it outside")
    with pytest.raises(NotAttributed, match=text) as caught:
        # Threads of these numbers are there, by chance.
        attribute_trial(change_tracing(traced, findings=[finding]))
    assert caught.value.hint == "run it outside"


@pytest.mark.parametrize(
    ("run_delay", "expected"),
    [
        (0, r"^not judged: host run_delay is not compared: host run_delay is 0 where the other view has \d+\.\d+ ms$"),
        (50_000_000, r"^host run_delay \(50.000 ms\) does not agree with the traced time off the CPU"),
        (2_500_000, r"^host run_delay \(2.500 ms\) agrees with the traced time off the CPU \(2\.\d+ ms\)"),
    ],
)
def test_nothing_agrees_with_nothing(traced: Trial, run_delay: int, expected: str) -> None:
    absent = Absent(absent="not here")
    views = HostViews(run_delay_ns=Value(value=run_delay), host_steal_ns=absent, guest_steal_ns=absent)
    trial = Trial(traced.folder, traced.record.model_copy(update={"host_views": views}))
    assert re.search(expected, attribute_trial(trial).views.agreement)


def test_each_agreement_is_told_with_the_rule_that_found_it(traced: Trial) -> None:
    absent = Absent(absent="not here")
    views = HostViews(run_delay_ns=absent, host_steal_ns=absent, guest_steal_ns=Value(value=10_000_000))
    trial = Trial(traced.folder, traced.record.model_copy(update={"host_views": views}))
    steal = r"guest steal \(10\.000 ms\) agrees with the traced time off the CPU \(2\.\d+ ms\) within 5% or 10 ms"
    assert re.fullmatch(steal, attribute_trial(trial).views.agreement), "they are less than a step of the counter apart"
    both = views.model_copy(update={"run_delay_ns": Value(value=10_000_000)})
    trial = Trial(traced.folder, traced.record.model_copy(update={"host_views": both}))
    run_delay = r"host run_delay \(10\.000 ms\) does not agree with the traced time off the CPU \(2\.\d+ ms\)"
    assert re.fullmatch(f"{run_delay} within 5% or 1 ms; {steal}", attribute_trial(trial).views.agreement)


def test_what_is_behind_a_period_is_found(traced: Trial) -> None:
    periods = summarize(Run.open(traced.folder.parents[1])).cells[0].periods
    assert len(periods) == 1
    (found,) = periodic_causes(periods, traced)
    assert found.cause is not None
    assert found.cause.kind == "timer_tick"
    assert re.fullmatch(r"every (3\.999|4|4\.001) ms: timer tick", found.text)
    assert found.share == pytest.approx(TICK_SHARE, abs=0.03)
    # The same period, but the probe was another thread: nothing in the trace concerns it.
    rows = [(time, *rest[:2], 77, *rest[3:]) for time, *rest in trace_ticks(traced.folder)[1:]]
    write_trace(traced.folder, rows, 3.0)
    (found,) = periodic_causes(periods, Run.open(traced.folder.parents[1]).trials[0])
    assert found.cause is None
    assert "no single cause (unexplained has 100%" in found.text


def test_a_trial_without_traces_says_so(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=[tick_cell()])
    with pytest.raises(NotAttributed, match="was not traced") as caught:
        attribute_trial(Run.open(known.folder).trials[0])
    assert caught.value.hint is not None
    assert "tracing" in caught.value.hint


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda rows: rows[:1] + rows[2:3] + rows[1:2] + rows[3:], "row 2 of the trace is earlier"),
        (lambda rows: [*rows[:4], (*rows[4][:2], 99, *rows[4][3:]), *rows[5:]], "unknown kind 99"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(traced: Trial, damage: Any, message: str) -> None:
    rows = damage(sorted(trace_ticks(traced.folder)))
    pq.write_table(to_table(rows), traced.folder / "host_trace.parquet")
    with pytest.raises(NotAttributed, match=message):
        attribute_trial(traced)


def test_a_truncated_trace_is_refused(traced: Trial) -> None:
    path = traced.folder / "host_trace.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StealtimeError, match="is not a whole table"):
        attribute_trial(traced)


def test_exchanges_that_contradict_each_other_mean_that_clocks_cannot_be_aligned(traced: Trial) -> None:
    alignment = traced.record.alignment
    assert alignment is not None
    host = TracingOutcome.model_validate(tracing(3.0, 1))
    low, high = allowed_offsets(alignment, host)
    assert low <= 0 <= high
    assert (high - low) / 2 <= (380 + 1) * 2.1 + 3 * 64 + 3
    jumped = alignment.after.model_copy(update={"machine_tsc": alignment.after.machine_tsc + 1_000_000})
    with pytest.raises(ClocksNotAligned, match=r"clocks cannot be aligned: .* apart"):
        allowed_offsets(alignment.model_copy(update={"after": jumped}), host)
    moved = alignment.model_copy(update={"before": jumped, "after": jumped})
    with pytest.raises(NotAttributed, match="should read the host's counter"):
        attribute_trial(Trial(traced.folder, traced.record.model_copy(update={"alignment": moved})))


def test_tracing_overhead_is_the_difference_within_pairs_of_one_repetition(tmp_path: Path) -> None:
    cells = [
        SyntheticCell(
            "native", "tick", {"loop_ns": 68_000}, FLOOR_NS + 100.0 * traced, 3e6 + 1e5 * number * traced, 0.3, 4_000,
            repetition=number, traced=traced,
        )
        for number in (1, 2, 3)
        for traced in (False, True)
    ]  # fmt: skip
    lonely = SyntheticCell("uml", "tick", {"loop_ns": 68_000}, FLOOR_NS, 3e6, 0.3, 4_000, traced=True)
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=[*cells, lonely]).folder)
    (cost,) = tracing_overheads(run)
    assert (cost.cell, cost.pairs) == ("native.alone.tick-68us", 3)
    assert cost.floor_shift_ns.median_ns == pytest.approx(100.0, abs=1.0)
    shift = cost.max_shift_ns
    assert (shift.min_ns, shift.median_ns, shift.max_ns) == pytest.approx((1e5, 2e5, 3e5), abs=2.0)


@pytest.mark.parametrize("kept", [series.KEPT_SAMPLES, 0], ids=["all", "the last trial's at least"])
def test_the_samples_of_a_run_are_read_once_for_all_that_is_told_of_them(
    traced: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    read: list[Path] = []

    def counted(folder: Path, floor: int | None, parts: int | None = None) -> Any:
        read.append(folder)
        return real(folder, floor, parts)

    real = series.read_series
    monkeypatch.setattr(series, "read_series", counted)
    monkeypatch.setattr(series, "KEPT_SAMPLES", kept)
    run = Run.open(traced.folder.parent.parent)
    summary = summarize(run)
    print_explanations(run, Console(file=io.StringIO()))
    write_report(run, tmp_path / "page.html", summary)
    assert read == [traced.folder]


def test_labels_are_words() -> None:
    cause = Cause(layer="host", kind="host_preempted", name="neighbour 1")
    assert cause.label == "host: preempted by neighbour 1"
    assert Cause(layer="host", kind="host_interrupt", name="local_timer").label == "host interrupt local_timer"
    assert Cause(layer="machine", kind="rt_throttling", name="fair server").label == "RT throttling (fair server)"
    assert Cause(layer="above", kind="unexplained").label == "unexplained"
