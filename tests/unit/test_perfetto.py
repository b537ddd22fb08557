"""A run as a trace for Perfetto, decoded by Perfetto's own messages and held against the run's tables."""

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command import Command
from perfetto_trace import MONOTONIC_RAW, DecodedTrace, decode
from synthetic_run import UNITS_PER_S, SyntheticCell, write_synthetic_run
from test_attribution import PROBE, START_RAW_NS, START_TSC, VECTOR_ENTRY, tick_cell, trace_ticks, write_trace

from stealtime.hosts.moments import ClockPair, Moments
from stealtime.report.marks import Mark, Slice, Track, Value, next_flow
from stealtime.report.perfetto.processor import check_by_processor, counted
from stealtime.report.perfetto.run import write_perfetto
from stealtime.report.perfetto.writer import PerfettoWriter, Written
from stealtime.store.export import read_samples
from stealtime.store.host_line import host_line
from stealtime.store.run import Run, Trial
from stealtime.studies.latency import marks as latency_marks
from stealtime.studies.latency.attribution.attribute import attribute_trial
from stealtime.studies.protection.results import Failover
from stealtime.vocabulary.errors import StealtimeError, UsageError

TRIAL = "native.alone.tick-68us.traced.r1"
NS_PER_CYCLE = 1e9 / UNITS_PER_S


@pytest.fixture
def traced(tmp_path: Path) -> Trial:
    known = write_synthetic_run(tmp_path / "run", cells=[tick_cell()])
    (cell,) = known.cells.values()
    write_trace(cell.folder, trace_ticks(cell.folder), cell.duration_s)
    return Run.open(known.folder).trials[0]


def written(trial: Trial, tmp_path: Path) -> tuple[DecodedTrace, Written]:
    target = tmp_path / "run.pftrace"
    told = write_perfetto(Run.open(trial.folder.parent.parent), target)
    return decode(target), told.written


def at_host(tsc: int) -> float:
    return START_RAW_NS + (tsc - START_TSC) * NS_PER_CYCLE


def test_all_lies_on_the_hosts_clock_and_every_slice_ends(traced: Trial, tmp_path: Path) -> None:
    found, counts = written(traced, tmp_path)
    assert (found.primary_clock, found.clocks) == (MONOTONIC_RAW, {MONOTONIC_RAW})
    assert found.snapshot[MONOTONIC_RAW] == START_RAW_NS
    assert found.unmatched_ends == 0
    assert all(one.duration_ns >= 0 for one in found.slices)
    assert (counts.tracks, counts.slices) == (len(found.tracks), len(found.slices))
    assert counts.values == sum(map(len, found.values.values()))
    (trial,) = found.on(f"{TRIAL}/trial")
    assert trial.arguments["clock"] == "CLOCK_MONOTONIC_RAW of the host"
    assert trial.arguments["error bound in ns"] == 0.0


def test_each_sample_is_a_value_at_its_start(traced: Trial, tmp_path: Path) -> None:
    found, _ = written(traced, tmp_path)
    batches = list(read_samples(traced))
    starts = np.concatenate([batch.column("start_ns").to_numpy() for batch in batches])
    durations = np.concatenate([batch.column("duration_ns").to_numpy() for batch in batches])
    values = found.values[f"{TRIAL}/samples"]
    assert len(values) == len(durations) == 8_000
    assert [value for _, value in values] == durations.tolist()
    np.testing.assert_allclose([at for at, _ in values], START_RAW_NS + starts, atol=1.1)


def test_spikes_and_causes_are_those_of_the_attribution(traced: Trial, tmp_path: Path) -> None:
    found, counts = written(traced, tmp_path)
    told = attribute_trial(traced, worst=latency_marks.WORST)
    spikes = {one.arguments["sample"]: one for one in found.on(f"{TRIAL}/spikes")}
    assert len(spikes) == told.spikes > 100
    causes = found.on(f"{TRIAL}/causes in the machine")
    wanted = [part for spike in told.worst for part in spike.segments if part.cause is not None]
    assert len(causes) == len(wanted) == counts.flows
    for spike in told.worst:
        drawn = spikes[spike.index]
        assert drawn.duration_ns == pytest.approx(spike.duration_ns, abs=2.0)
        assert drawn.arguments["excess in ns"] == spike.excess_ns
        ends = [one for one in causes if set(one.ends_flows) & set(drawn.flows)]
        segments = [one for one in spike.segments if one.cause is not None]
        assert [one.name for one in ends] == [one.cause.label for one in segments if one.cause is not None]
        for end, segment in zip(ends, segments, strict=True):
            assert end.at_ns == pytest.approx(drawn.at_ns + segment.start_ns, abs=2.0)
            assert end.duration_ns == pytest.approx(segment.duration_ns, abs=2.0)
    worst = max(spikes.values(), key=lambda one: one.duration_ns)
    (by,) = [one for one in causes if set(one.ends_flows) & set(worst.flows)]
    assert (by.name, by.category) == ("thread neighbour", "thread")


def test_kernel_events_are_those_of_the_table(traced: Trial, tmp_path: Path) -> None:
    found, _ = written(traced, tmp_path)
    assert traced.host_trace_path is not None
    rows = pq.read_table(traced.host_trace_path).to_pylist()
    entries = [row for row in rows if row["kind"] == VECTOR_ENTRY]
    vectors = found.on(f"{TRIAL}/host's kernel/CPU 0/CPU 0 interrupts")
    assert len(vectors) == len(entries) > 100
    assert {one.name for one in vectors} == {"local_timer"}
    np.testing.assert_allclose([one.at_ns for one in vectors], [at_host(row["time"]) for row in entries], atol=1.1)
    ran = found.on(f"{TRIAL}/host's kernel/CPU 0")
    assert [one.arguments["thread"] for one in ran] == [PROBE, 77, PROBE]
    (theft,) = [one for one in found.on(f"{TRIAL}/causes in the machine") if one.category == "thread"]
    assert ran[1].at_ns == pytest.approx(theft.at_ns, abs=2.0), "the event and the cause made of it are at one place"
    assert ran[1].duration_ns == pytest.approx(theft.duration_ns, abs=2.0)


def test_a_loss_ends_what_is_not_known_to_go_on(traced: Trial, tmp_path: Path) -> None:
    rows: list[tuple[int, ...]] = [
        (START_TSC, 0, 0, 0, 0, PROBE, 4, 1), (START_TSC + 2_100, 0, 6, PROBE, 236, 0, 0, 0),
        (START_TSC + 4_200, 0, 12, 0, 17, 0, 0, 2**32 - 1), (START_TSC + 6_300, 0, 7, PROBE, 236, 0, 0, 0),
    ]  # fmt: skip
    write_trace(traced.folder, rows, 0.5)
    found, _ = written(Run.open(traced.folder.parent.parent).trials[0], tmp_path)
    kernel = f"{TRIAL}/host's kernel/CPU 0"
    assert [one.duration_ns for one in found.on(kernel)] == [2_000]
    assert [one.duration_ns for one in found.on(f"{kernel}/CPU 0 interrupts")] == [1_000]
    assert [one.name for one in found.instants] == ["17 events lost before this"]
    assert found.unmatched_ends == 0


def test_of_too_many_samples_the_longest_of_each_stretch_are_drawn(
    traced: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency_marks, "MOST_VALUES", 100)
    target = tmp_path / "run.pftrace"
    told = write_perfetto(Run.open(traced.folder.parent.parent), target)
    values = decode(target).values[f"{TRIAL}/samples"]
    assert 90 <= len(values) <= 100
    assert max(value for _, value in values) == pytest.approx(3_000_000.0, abs=1.0)
    assert any("8000 samples: of each of 100 equal stretches" in sentence for sentence in told.left_out)


def test_a_guest_lies_within_its_bound_of_the_exchanges(tmp_path: Path) -> None:
    guest = SyntheticCell("qemu-tcg-paravirt", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 2_000)
    known = write_synthetic_run(tmp_path / "run", cells=[guest])
    (cell,) = known.cells.values()
    path = cell.folder / "trial.json"
    document = json.loads(path.read_text())
    before, after = document["alignment"]["before"], document["alignment"]["after"]
    after |= {
        "host_monotonic_raw_ns": before["host_monotonic_raw_ns"] + 3_000_000_000,
        "machine_tsc": before["machine_tsc"] + round(3 * UNITS_PER_S),
    }
    path.write_text(json.dumps(document))
    (trial,) = Run.open(known.folder).trials
    line = host_line(trial.record)
    for exchange in (before, after):
        apart_ns = line.machine.moment(exchange["machine_tsc"]) - exchange["host_monotonic_raw_ns"]
        assert abs(apart_ns) <= line.error_ns == max(before["error_ns"], after["error_ns"])
    found, _ = written(trial, tmp_path)
    (whole,) = [one for one in found.slices if one.category == "trial"]
    assert whole.arguments["error bound in ns"] == line.error_ns


def test_a_run_without_exchanges_of_clocks_says_why_it_is_not_drawn(tmp_path: Path) -> None:
    guest = SyntheticCell("qemu-tcg-paravirt", "tick", {"loop_ns": 68_000}, 68_000.0, 1e6, 0.4, 2_000)
    known = write_synthetic_run(tmp_path / "run", cells=[guest])
    (cell,) = known.cells.values()
    path = cell.folder / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"alignment": None}))
    with pytest.raises(StealtimeError, match="nothing of run lies on the host's clock") as told:
        write_perfetto(Run.open(known.folder), tmp_path / "run.pftrace")
    assert "was cut short before its clocks were exchanged" in str(told.value.hint)
    assert not (tmp_path / "run.pftrace").exists()


def test_epochs_of_protection_and_the_fault_are_drawn(tmp_path: Path) -> None:
    known = write_synthetic_run(tmp_path / "run", cells=[tick_cell(traced=False)])
    (cell,) = known.cells.values()
    path = cell.folder / "trial.json"
    document = json.loads(path.read_text())
    begin = 5_000_000_000
    clocks = (
        ClockPair(monotonic_ns=begin, monotonic_raw_ns=begin + 700),
        ClockPair(monotonic_ns=begin + 10**9, monotonic_raw_ns=begin + 700 + 10**9 + 50_000),
    )
    moments = Moments(
        clocks=clocks, error_ns=12, epoch=[1, 2, 3], begin_ns=[begin + step * 10**8 for step in range(3)],
        pause_ns=[3_000_000] * 3, cut_ns=[1_000_000] * 3, hold_ns=[150_000_000, 5_000_000, 5_000_000], pages=[7] * 3,
        shipped_bytes=[4096] * 3, struck_ns=begin + 500_000_000, running_ns=begin + 700_000_000,
    )  # fmt: skip
    result = Failover(
        requests=9, acknowledged=9, violations={}, checkpoints=None, moments=moments, host="a", silence_tcp_ns=1,
        silence_udp_ns=1, fault_to_running_ns=200_000_000, decision_to_running_ns=1, tcp_lived=True, pages_wrong=0,
    )  # fmt: skip
    name = "qemu-tcg-paravirt.protected.failover-killed-100ms-net"
    parameters = {"mode": "net", "interval_ns": 10**8, "fault": "killed"}
    document["cell"] = {
        "platform": "qemu-tcg-paravirt", "scenario": "protected", "probe": "failover", "parameters": parameters,
        "traced": False,
    }  # fmt: skip
    document |= {"outcome": None, "alignment": None, "result": result.model_dump(mode="json"), "clocks": None}
    path.write_text(json.dumps(document))
    (trial,) = Run.open(known.folder).trials
    found, counts = written(trial, tmp_path)
    root = trial.record.trial_id
    assert root.startswith(name)
    pauses = found.on(f"{root}/epochs")
    # CLOCK_MONOTONIC runs slower here by 50 us in a second, and all is on the other clock.
    assert [one.at_ns - begin - 700 for one in pauses] == [0, 100_005_000, 200_010_000]
    assert [one.duration_ns for one in pauses] == pytest.approx([3_000_150] * 3, abs=1)
    held = [*found.on(f"{root}/output held"), *found.on(f"{root}/output held (2)")]
    assert sorted(one.arguments["epoch"] for one in held) == [1, 2, 3]  # type: ignore[type-var]
    assert [one.arguments["epoch"] for one in found.on(f"{root}/output held (2)")] == [2], "the first is still held"
    assert {one.flows for one in pauses} == {one.ends_flows for one in held}
    assert counts.flows == 3
    assert [one.name for one in found.instants] == ["the host died", "the guest ran again"]


def test_memory_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    track, target = Track("t"), tmp_path / "big"
    resident: list[int] = []

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def marks(number: int) -> Iterator[Mark]:
        for at_ns in range(number):
            yield Value(track, at_ns, 1.0)
            yield Slice(track, at_ns, 0, "s", "c", {"n": at_ns}, (next_flow(),))
            if at_ns in (1_000, number - 1):
                resident.append(resident_bytes())

    with PerfettoWriter(target, raw_ns=1, realtime_ns=1) as writer:
        writer.write(marks(30_000))
        # What is not in the file yet fits its buffer.
        assert target.stat().st_size > 2_000_000
    # 90,000 packets that were kept would be some 100 MB.
    assert resident[1] - resident[0] < 20_000_000


def test_without_the_library_a_hint_says_how_to_get_it(
    traced: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("perfetto.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StealtimeError, match="needs the Python package perfetto") as told:
        write_perfetto(Run.open(traced.folder.parent.parent), tmp_path / "run.pftrace")
    assert told.value.hint == "pip install 'stealtime[perfetto]'"


def test_a_trace_processor_that_is_none_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text")
    for program, message in ((tmp_path / "absent", "there is no such file"), (plain, "cannot be run")):
        with pytest.raises(UsageError, match=message):
            check_by_processor(program, tmp_path / "run.pftrace", Written())
    for name, message in (("false", "ended with 1 and said 'nothing'"), ("echo", 'ended with 0 and said "-Q')):
        with pytest.raises(StealtimeError, match=message):
            check_by_processor(Path("/bin") / name, tmp_path / "run.pftrace", Written())


def test_what_a_trace_processor_counts_is_compared() -> None:
    written = Written(tracks=3, slices=5, instants=2, values=11, flows=4)
    names = '"slices","counters","flows","errors"'
    assert counted(f"{names}\n7,11,4,0\n", written) == "7 slices, 11 values and 4 flows"
    for wrong in ("6,11,4,0", "7,10,4,0", "7,11,3,0", "7,11,4,1"):
        with pytest.raises(StealtimeError, match="where 7, 11, 4 and 0 were written"):
            counted(f"{names}\n{wrong}\n", written)


def test_the_command_writes_it_and_refuses_what_makes_no_sense(
    traced: Trial, tmp_path: Path, stealtime: Command
) -> None:
    run, target = str(traced.folder.parent.parent), tmp_path / "out.pftrace"
    ended = stealtime("export", run, "--perfetto", str(target), "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["schema_version"], document["summary"], document["bmf"]) == (2, None, None)
    assert document["perfetto"]["slices"] == len(decode(target).slices)
    for arguments, message in (
        ((), "export was not told what to write"),
        (("--trace-processor", "/bin/true"), "--trace-processor reads what --perfetto writes"),
        (("--perfetto", str(target), "--trace-processor", "/nowhere"), "/nowhere: there is no such file"),
        (("--bmf", "-", "--json"), "both write to stdout"),
    ):
        refused = stealtime("export", run, *arguments)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    broken = stealtime("export", run, "--perfetto", str(tmp_path / "no/such/folder"))
    assert (broken.code, "cannot be written: No such file or directory" in broken.err) == (1, True), broken.err


def test_numbers_of_flows_are_never_used_twice() -> None:
    numbers = [next_flow() for _ in itertools.repeat(None, 10)]
    assert len(set(numbers)) == 10
