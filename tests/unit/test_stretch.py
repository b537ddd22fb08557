"""Stretch, lost seconds and predictions, from cells whose right answers are known."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from stretch_cells import BUSY, cell, recording, recordings, related, together
from synthetic_use import guest, use

from stealtime.capacity.recording import RecordedUse, unreadable
from stealtime.report.notation import ABSENT
from stealtime.store.model import HostViews
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis import prediction
from stealtime.studies.stretch.analysis.accuracy import accuracies, interval_factor
from stealtime.studies.stretch.analysis.cell import waited_ns
from stealtime.studies.stretch.analysis.compare import compare_cells
from stealtime.studies.stretch.analysis.guests import is_favoured
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import Guest, StretchCell
from stealtime.studies.stretch.analysis.provisioning import judged
from stealtime.studies.stretch.analysis.recorded import Moment, moment_of
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.figures import lost_axis, lost_bars, predicted_against_native, stretch_axis
from stealtime.studies.stretch.page.over_time import charts
from stealtime.studies.stretch.page.section import section
from stealtime.studies.stretch.stored import Contention
from stealtime.studies.stretch.study import STUDY
from stealtime.vocabulary.readings import Absent, Reading, Value

NATIVE = [1.00, 1.02, 0.99, 1.01]
TWICE = [2.01, 2.03, 1.98, 2.02]


def test_stretch_is_told_against_native_and_against_the_guest_alone() -> None:
    native, alone, beside = relate(
        [
            cell("native", "whole", NATIVE, vcpus=2),
            cell("uml", "half", TWICE),
            cell("uml", "filled", [4.0, 4.1, 3.9, 4.0], beside=[BUSY] * 3),
        ]
    )
    assert (native.against_native, native.against_alone) == (None, None)
    assert alone.against_native is not None
    assert alone.against_native.base == "native whole"
    assert alone.against_native.ratio == pytest.approx(2.0, abs=0.01)
    assert alone.against_native.low is not None
    assert 1.9 < alone.against_native.low < 2.0
    assert alone.against_alone is None
    assert beside.against_native is not None
    assert beside.against_alone is not None
    assert beside.against_alone.base == "uml half"
    assert beside.against_alone.ratio == pytest.approx(2.0, abs=0.02)
    assert beside.against_native.ratio == pytest.approx(4.0, abs=0.05)


def test_native_against_itself_is_one_within_its_interval() -> None:
    _, twin = relate([cell("native", "whole", NATIVE), cell("native", "again", [1.01, 0.99, 1.0, 1.02])])
    one = twin.against_native
    assert one is not None
    assert one.low is not None
    assert one.high is not None
    assert one.low < 1.0 < one.high < 1.05


def test_each_guest_that_did_the_same_is_told_with_the_fastest_and_the_slowest() -> None:
    native = cell("native", "whole", NATIVE, vcpus=2)
    alone = cell("uml", "half", TWICE)
    beside = together("overcommitted", [4.0, 4.1, 3.9, 4.0], [4.2, 4.3, 4.1, 4.2], [4.4, 4.5, 4.3, 4.4])
    found = relate([native, alone, beside])[2]
    assert [one.name for one in found.alike] == ["neighbour 1", "neighbour 2"]
    against_native = [found.against_native, *(one.against_native for one in found.alike)]
    ratios = [one.ratio for one in against_native if one is not None]
    assert ratios == pytest.approx([3.98, 4.18, 4.38], abs=0.01)
    assert [one.against_alone is not None for one in found.alike] == [True] * 2
    lost = [one for one in (found.lost, *(guest.lost for guest in found.alike)) if one is not None]
    assert [one.lost_s for one in lost] == pytest.approx([2.995, 3.195, 3.395])
    assert all(one.lost_s == pytest.approx(sum(one.parts_s.values()) + one.unexplained_s) for one in lost)
    assert wording.spread_words(found) == "3 guests: 3.98x to 4.38x".replace("x", "\N{MULTIPLICATION SIGN}")
    assert wording.beside_words(found) == "2 alike"
    assert found.columns["fastest_guest_median_s"] == pytest.approx(4.0)
    assert found.columns["slowest_guest_median_s"] == pytest.approx(4.4)
    # Of what is published only the fastest is known.
    assert STUDY.measurement(found, "elapsed").value == pytest.approx(4.0e9, rel=0.01)
    assert relate([native, alone])[1].alike == []


def test_a_guest_that_found_something_else_has_no_stretch() -> None:
    beside = together("overcommitted", [4.0] * 4, [4.2] * 4, checksum=8)
    found = relate([cell("native", "whole", NATIVE, vcpus=2), beside])[1]
    neighbour = found.alike[0].against_native
    assert found.against_native is not None
    assert found.against_native.ratio is not None
    assert neighbour is not None
    assert (neighbour.ratio, neighbour.because) == (None, "the checksums differ: it was not the same work")


FAVOURED, OTHER = Guest(vcpus=1, weight=300, is_alike=True), Guest(vcpus=1, weight=100, is_alike=True)


@pytest.mark.parametrize(
    ("favoured_s", "verdict"),
    [(2.0, "the priority protects"), (4.0, "no protection shown"), (8.0, "the priority harms")],
)
def test_a_priority_is_judged_by_what_the_favoured_guests_took_without_it(favoured_s: float, verdict: str) -> None:
    free = together("overcommitted", *([[4.0, 4.1, 3.9, 4.0]] * 4))
    own = [favoured_s * factor for factor in (1.01, 0.99, 1.0, 1.0)]
    weighted = together("weights", own, own, [5.0] * 4, [5.2] * 4, guests=[FAVOURED, FAVOURED, OTHER, OTHER])
    found = relate([cell("native", "whole", NATIVE, vcpus=2), free, weighted])
    assert found[1].priority is None
    one = found[2].priority
    assert one is not None
    assert (one.favoured_guests, one.other_guests) == (2, 2)
    assert one.favoured.ratio == pytest.approx(favoured_s / 4, rel=0.01)
    assert one.others.ratio == pytest.approx(5.1 / 4, rel=0.01)
    (sentence,) = wording.priority_sentences(found)
    assert sentence.startswith(f"uml weights: {verdict}: the 2 favoured guests took ")


def test_a_priority_is_not_judged_without_repetitions_and_not_seen_without_the_same_guests_free() -> None:
    weighted = together("weights", [2.0] * 3, [5.0] * 3, guests=[FAVOURED, OTHER])
    free = together("overcommitted", [4.0] * 3, [4.0] * 3)
    found = relate([free, weighted])[1]
    assert wording.priority_sentences([found])[0].startswith(
        "uml weights: not judged whether the priority protects, because one side has 3 valid repetitions"
    )
    three = together("overcommitted", [4.0] * 3, [4.0] * 3, [4.0] * 3)
    assert relate([three, weighted])[1].priority is None
    # A quota bounds whatever the weight is.
    held = Guest(vcpus=1, quota_percent=33.3, is_alike=True)
    assert is_favoured(Guest(vcpus=1), [Guest(vcpus=1), held])
    assert not is_favoured(held, [Guest(vcpus=1), held])
    assert not is_favoured(OTHER, [OTHER, OTHER])


def test_the_work_is_named_with_units() -> None:
    given = {"tasks": 1, "iterations": 60, "io_mean_ns": 0, "lock_percent": 50, "collection_bytes": 1 << 21, "seed": 3}
    one = cell("native", "whole", NATIVE).model_copy(update={"parameters": given})
    assert wording.work_words(one) == ("contend, 1 task of 60 iterations, collection 2 MiB, no io, lock 50 %, seed 3")
    slow = one.model_copy(update={"parameters": {"tasks": 8, "iterations": 60, "io_mean_ns": 5_000_000}})
    assert wording.work_words(slow) == "contend, 8 tasks of 60 iterations, io mean 5ms"


def test_too_few_repetitions_and_other_work_are_not_judged() -> None:
    _, few, other = relate(
        [cell("native", "whole", NATIVE), cell("uml", "half", TWICE[:3]), cell("uml", "half", TWICE, checksum=8)]
    )
    assert few.against_native is not None
    assert few.against_native.low is None
    assert few.against_native.because == "one side has 3 valid repetitions, 4 are needed"
    assert wording.stretch_words(few.against_native).endswith("(not judged)")
    assert other.against_native is not None
    assert other.against_native.ratio is None
    assert "checksums differ" in (other.against_native.because or "")
    assert wording.stretch_words(other.against_native) == ABSENT


def test_a_cell_that_failed_everywhere_has_no_stretch_and_no_base() -> None:
    failed, left = relate([cell("native", "whole", []), cell("uml", "half", TWICE)])
    assert (failed.is_measured, left.against_native, left.lost) == (False, None, None)
    assert failed.columns.keys() == left.columns.keys()
    assert "no stretch against native" in wording.bases_sentence([left])


def parts_of(base: StretchCell, other: StretchCell) -> dict[str, float]:
    lost = relate([base, other])[1].lost
    assert lost is not None
    assert lost.lost_s == pytest.approx(sum(lost.parts_s.values()) + lost.unexplained_s)
    return {**{name: value for name, value in lost.parts_s.items() if abs(value) > 1e-9}, "rest": lost.unexplained_s}


def test_half_of_the_time_of_two_on_one_cpu_is_shown_as_wait() -> None:
    native = cell("native", "whole", [1.0] * 4)
    # The guest has no steal clock: what it waited it counts as its own CPU time.
    guest = cell("uml", "beside", [2.0] * 4, beside=[BUSY], wait_s=1.0)
    assert parts_of(native, guest) == pytest.approx({"cpu_wait": 1.0, "rest": 0.0})
    # Natively the task's clock stands still meanwhile.
    process = cell("native", "beside", [2.0] * 4, beside=[BUSY], wait_s=1.0, cpu_s=1.0)
    assert parts_of(native, process) == pytest.approx({"cpu_wait": 1.0, "rest": 0.0})
    # So does that of a guest with a steal clock.
    told = cell("qemu-kvm-paravirt", "beside", [2.0] * 4, beside=[BUSY], wait_s=1.0, cpu_s=1.0)
    assert parts_of(native, told) == pytest.approx({"cpu_wait": 1.0, "rest": 0.0})


def test_what_two_threads_of_one_virtual_cpu_waited_is_not_counted_twice() -> None:
    done = {name: 0 for name in Contention.model_fields if name.endswith("_ns")} | {"idle_ns": 300}
    result = Contention.model_validate(
        {**done, "iterations": 1, "checksum": 0, "cpus": 1, "minor_faults": 0, "major_faults": 0,
         "involuntary_switches": 0, "elapsed_ns": 2000}
    )  # fmt: skip
    absent = Absent(absent="not read")

    def waited(delay: Reading, run: Reading) -> int | None:
        views = HostViews(run_delay_ns=delay, host_steal_ns=absent, guest_steal_ns=absent, run_ns=run)
        return waited_ns(result, views)

    assert waited(Value(value=1900), Value(value=700)) == 1000
    assert waited(Value(value=900), Value(value=700)) == 900
    assert waited(Value(value=900), Value(value=5000)) == 0
    assert waited(Value(value=900), absent) == 900
    assert waited(absent, Value(value=700)) is None
    assert waited_ns(result, None) is None


def test_tasks_that_wait_for_each_other_lose_nothing_by_it() -> None:
    native = cell("native", "whole", [1.0] * 4, wait_s=7.0)
    crowd = cell("native", "again", [1.5] * 4, wait_s=9.0, cpu_s=1.5)
    assert parts_of(native, crowd) == pytest.approx({"execution": 0.5, "rest": 0.0})


def test_a_quota_is_named() -> None:
    native = cell("native", "whole", [1.0] * 4)
    half = Guest(vcpus=1, quota_percent=50)
    guest = cell("uml", "quota", [2.0] * 4, itself=half, wait_s=1.0, throttled_s=0.95)
    assert parts_of(native, guest) == pytest.approx({"quota": 0.95, "cpu_wait": 0.05, "rest": 0.0})
    process = cell("native", "quota", [2.0] * 4, itself=half, wait_s=1.0, throttled_s=1.0, cpu_s=1.0, idle_s=1.0)
    assert parts_of(native, process) == pytest.approx({"quota": 1.0, "rest": 0.0})


def test_fewer_cpus_memory_execution_and_the_hosts_host_are_told_apart() -> None:
    native = cell("native", "whole", [1.0] * 4, vcpus=2, cpu_s=2.0, fill_cpu_s=0.4)
    guest = cell("uml", "half", [3.0] * 4, cpu_s=3.0, fill_cpu_s=1.0)
    assert parts_of(native, guest) == pytest.approx({"fewer_cpus": 1.0, "memory": 0.6, "execution": 0.4, "rest": 0.0})
    stolen = cell("uml", "half", [3.0] * 4, cpu_s=3.0, fill_cpu_s=0.0, host_steal_s=3.0)
    assert parts_of(native, stolen)["host_steal"] == pytest.approx(1.5)


def test_idle_time_is_that_of_the_lock_of_io_and_of_the_end() -> None:
    native = cell("native", "whole", [1.0] * 4, vcpus=2, cpu_s=2.0)
    bound = cell(
        "native", "again", [2.0] * 4, vcpus=2, cpu_s=2.0, idle_s=2.0, uneven_idle_s=0.4, lock_wait_s=9.0, io_s=3.0
    )
    assert parts_of(native, bound) == pytest.approx({"uneven": 0.2, "lock_wait": 0.6, "io": 0.2, "rest": 0.0})


def test_what_no_measurement_accounts_for_is_unexplained() -> None:
    native = cell("native", "whole", [1.0] * 4)
    guest = cell("uml", "half", [2.0] * 4, cpu_s=1.2, idle_s=0.3, io_s=1.0, wait_s=None)
    parts = parts_of(native, guest)
    assert parts == pytest.approx({"execution": 0.2, "io": 0.3, "rest": 0.5})
    lost = relate([native, guest])[1].lost
    assert lost is not None
    assert lost.absent == ["waiting for a CPU of the host: the host's kernel does not tell the run delay"]
    assert "cpu_wait" not in lost.parts_s


def test_page_faults_exits_and_slower_cycles_are_taken_from_what_they_were_a_part_of() -> None:
    native = cell("native", "whole", [1.0] * 4, fill_cpu_s=0.2, fault_cpu_s=0.1, cycles=800, instructions=1600)
    # Of 3 s: 0.9 s filling, of that 0.6 s faults; 0.5 s outside of the guest; 0.6 cycles an instruction for 0.5.
    guest = cell(
        "qemu-kvm-paravirt", "half", [3.0] * 4, cpu_s=3.0, fill_cpu_s=0.9, fault_cpu_s=0.6, outside_guest_s=0.5,
        cycles=960, instructions=1600,
    )  # fmt: skip
    # Natively a second has 1000 cycles: 160 more are 0.16 s.
    assert parts_of(native, guest) == pytest.approx(
        {"page_faults": 0.5, "memory": 0.2, "exits": 0.5, "cycles": 0.16, "execution": 0.64, "rest": 0.0}
    )


@pytest.mark.parametrize(
    ("figure", "part", "holds_it"),
    [
        ("fault_cpu_s", "page_faults", "memory"),
        ("outside_guest_s", "exits", "execution"),
        ("instructions", "cycles", "execution"),
        ("host_steal_s", "host_steal", "memory"),
        ("idle_s", "io", "rest"),
    ],
)
def test_a_part_that_was_not_measured_is_absent_and_never_nought(figure: str, part: str, holds_it: str) -> None:
    known: dict[str, Any] = {
        "cpu_s": 2.0, "fill_cpu_s": 0.8, "fault_cpu_s": 0.5, "outside_guest_s": 0.4, "cycles": 1_500_000,
        "instructions": 1_000_000, "idle_s": 1.0, "io_s": 1.0, "host_steal_s": 1.0,
    }  # fmt: skip
    native = cell("native", "whole", [1.0] * 4, fill_cpu_s=0.2, fault_cpu_s=0.1)
    whole = parts_of(native, cell("qemu-kvm-paravirt", "half", [3.0] * 4, **known))
    guest = cell("qemu-kvm-paravirt", "half", [3.0] * 4, **{**known, figure: None})
    lacking = parts_of(native, guest.model_copy(update={"not_counted": {figure: "nobody counts it"}}))
    assert abs(whole[part]) > 0.01
    assert part not in lacking
    assert lacking[holds_it] != pytest.approx(whole[holds_it], abs=0.01)
    related_cells = relate([native, guest])
    lost = related_cells[1].lost
    assert lost is not None
    assert any(text.startswith(f"{PARTS[part]}: ") for text in lost.absent)
    assert f"Not told: {PARTS[part]}" in " ".join(wording.absent_sentences(related_cells))
    shown = str(section(related_cells, [None, None]).body)
    assert f"Not told: {escape(PARTS[part])}" in shown


def test_a_part_that_is_absent_of_the_base_is_absent() -> None:
    native = cell("native", "whole", [1.0] * 4, fill_cpu_s=0.2, fault_cpu_s=None, cycles=None)
    native = native.model_copy(update={"not_counted": {"instructions": "perf_event_open: ENOENT"}})
    lost = relate([native, cell("uml", "half", [2.0] * 4)])[1].lost
    assert lost is not None
    assert lost.absent == [
        "page faults: native whole was not asked",
        "more cycles per instruction: perf_event_open: ENOENT",
    ]


def test_exits_are_counted_in_words() -> None:
    (sentence,) = wording.exits_sentences(
        [cell("qemu-kvm-paravirt", "half", [2.0, 2.0], exits=5000), cell("uml", "half", [1.0])]
    )
    assert sentence == "qemu-kvm-paravirt half: its virtual CPUs left the guest 5,000 times (mean of 2), 2500 a second."


@given(st.data())
def test_the_parts_always_add_up(data: st.DataObject) -> None:
    seconds = st.floats(0.0, 10.0)

    def any_cell(platform: str, scenario: str) -> StretchCell:
        more: dict[str, Any] = {
            name: data.draw(seconds)
            for name in (
                "cpu_s", "fill_cpu_s", "lock_wait_s", "io_s", "uneven_idle_s", "idle_s", "wait_s", "throttled_s",
                "host_steal_s", "fault_cpu_s", "outside_guest_s",
            )
        }  # fmt: skip
        more |= {name: data.draw(st.none() | st.integers(0, 10**12)) for name in ("cycles", "instructions")}
        vcpus = data.draw(st.integers(1, 4))
        return cell(platform, scenario, [data.draw(st.floats(0.1, 10.0)) for _ in range(2)], vcpus=vcpus, **more)

    platform = data.draw(st.sampled_from(["native", "uml", "qemu-kvm-paravirt"]))
    parts = parts_of(any_cell("native", "whole").model_copy(update={"vcpus": 4}), any_cell(platform, "other"))
    assert math.isfinite(parts["rest"])


def test_cpus_are_shared_out_by_weight_up_to_each_ones_limit() -> None:
    quota = Guest(vcpus=1, quota_percent=25)
    assert prediction.entitled_cpus([BUSY, BUSY], 2) == [1.0, 1.0]
    assert prediction.entitled_cpus([BUSY] * 4, 2) == pytest.approx([0.5] * 4)
    heavy, light = Guest(vcpus=1, weight=300), Guest(vcpus=1, weight=100)
    assert prediction.entitled_cpus([heavy, light], 1) == pytest.approx([0.75, 0.25])
    # One CPU is all that a vCPU can use: the rest goes to the others.
    assert prediction.entitled_cpus([heavy, light, light, light], 2) == pytest.approx([1.0, 1 / 3, 1 / 3, 1 / 3])
    assert prediction.entitled_cpus([BUSY, quota, quota], 1) == pytest.approx([0.5, 0.25, 0.25])
    assert prediction.entitled_cpus([Guest(vcpus=2), BUSY, BUSY], 2) == pytest.approx([1.0, 0.5, 0.5])


@given(
    st.lists(
        st.builds(
            Guest,
            vcpus=st.integers(1, 8),
            weight=st.none() | st.integers(1, 10_000),
            quota_percent=st.none() | st.floats(1.0, 800.0),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 16),
)
def test_no_more_is_shared_out_than_there_is_and_nothing_is_left_that_somebody_wants(
    guests: list[Guest], cpus: int
) -> None:
    given_cpus = prediction.entitled_cpus(guests, cpus)
    caps = [min(one.vcpus, math.inf if one.quota_percent is None else one.quota_percent / 100) for one in guests]
    assert all(got <= cap + 1e-9 for got, cap in zip(given_cpus, caps, strict=True))
    assert sum(given_cpus) == pytest.approx(min(sum(caps), cpus), rel=1e-6)


def test_models_agree_with_their_textbooks() -> None:
    # The source's own example: four CPUs, each busy 25 % of the time.
    assert prediction.all_busy(0.25, 4) == pytest.approx(0.0039, abs=1e-4)
    assert prediction.open_queue_stretch(0.5, 1) == pytest.approx(2.0)
    # M/M/1: 1 / (1 - rho); M/M/2: 1 / (1 - rho^2).
    assert prediction.erlang_c_stretch(0.8, 1) == pytest.approx(5.0)
    assert prediction.erlang_c_stretch(0.8, 2) == pytest.approx(1 / (1 - 0.64))
    # Erlang's C for 10 servers and 8 Erlang is 0.4092 (tables).
    assert prediction.erlang_c_stretch(0.8, 10) == pytest.approx(1 + 0.4092 / 2, abs=1e-4)
    assert (prediction.open_queue_stretch(1.0, 2), prediction.erlang_c_stretch(1.2, 2)) == (None, None)
    assert prediction.closed_stretch(BUSY, [BUSY] * 3, 2) == 2.0
    assert prediction.closed_stretch(BUSY, [], 2) == 1.0


def test_a_guest_that_is_often_idle_loses_less_than_one_that_never_is() -> None:
    busy = prediction.entitled_stretch(1.0, 1.0, BUSY, [BUSY] * 3, 2)
    idle = prediction.entitled_stretch(1.0, 0.6, BUSY, [BUSY] * 3, 2)
    assert busy == pytest.approx(2.0)
    assert idle == pytest.approx(1.2)
    assert prediction.entitled_stretch(1.0, 0.3, BUSY, [BUSY] * 3, 2) == 1.0


def test_the_prediction_stands_beside_the_measured_with_its_residual_and_one_guest_more() -> None:
    predicted = related()[2].predicted
    assert predicted is not None
    assert predicted.entitled == pytest.approx(2.0)
    assert predicted.residual == pytest.approx(0.05, abs=0.001)
    assert predicted.utilization == pytest.approx(2.0)
    assert (predicted.all_busy, predicted.erlang_c) == (1.0, None)
    # 5 busy on 2 CPUs, against a native half a second.
    assert predicted.one_more is not None
    assert predicted.one_more == pytest.approx(2.5 * 1.0 / 0.504, rel=0.01)
    assert predicted.one_more_low is not None
    assert predicted.one_more_high is not None
    assert predicted.one_more_low < predicted.one_more / 1.05 < 1.05 * predicted.one_more < predicted.one_more_high
    assert "one more such neighbour" in wording.one_more_sentences(related())[1]


def test_the_interval_is_at_least_as_wide_as_the_error_on_mixes_that_were_held_out() -> None:
    predicted = related()[2].predicted
    assert predicted is not None
    assert predicted.one_more is not None
    assert predicted.one_more_low is not None
    assert predicted.one_more_high is not None
    factor = interval_factor("uml")
    assert factor > 1.05, "the residual of the run is 5 %"
    # The guest alone was measured with an interval of its own.
    assert predicted.one_more_low < predicted.one_more / factor
    assert predicted.one_more_high > predicted.one_more * factor
    assert interval_factor("ssh:board") == max(one.factor for one in accuracies().values())


def test_work_that_sleeps_is_predicted_to_wait_less() -> None:
    def predicted(**alone: Any) -> float:
        native = cell("native", "whole", [0.5] * 4, vcpus=2)
        beside = cell("uml", "filled", [4.0] * 4, beside=[BUSY] * 3)
        one = relate([native, cell("uml", "half", [2.0] * 4, **alone), beside])[2].predicted
        assert one is not None
        return one.shared

    assert predicted(cpu_s=2.0) == pytest.approx(2.0)
    # Eight tasks, each of which sleeps for 1.8 s.
    assert predicted(cpu_s=0.2, io_asked_s=14.4) < 1.2
    # What it cost the host counts, not what the guest knows of it.
    assert predicted(cpu_s=0.2, io_asked_s=5.0, host_run_s=1.9) > 1.8


def test_nothing_is_predicted_on_a_host_that_has_other_work() -> None:
    busy = cell("native", "whole", [1.0] * 4, cpu_s=0.8, wait_s=5.0)
    alone, beside = cell("uml", "half", [2.0] * 4), cell("uml", "filled", [4.0] * 4, beside=[BUSY] * 3)
    found = relate([busy, alone, beside])
    for one in found[1:]:
        assert one.predicted is not None
        assert (one.predicted.residual, one.predicted.one_more) == (None, None)
        assert predicted_against_native(one, found) is None
    assert wording.one_more_sentences(found) == []
    (sentence,) = wording.not_judged_sentences(found)
    assert "native whole waited 20% of its time" in sentence


def test_figures_lie_on_their_axes() -> None:
    cells = related()
    axis = stretch_axis(cells)
    assert predicted_against_native(cells[2], cells) == pytest.approx(2 * 1.0 / 0.504, rel=0.01)
    assert axis.place(axis.low) == 0.0
    assert 3 <= len(axis.ticks) <= 8
    bars = lost_bars(cells, lost_axis(cells))
    assert [bar.title for bar in bars] == ["uml half", "uml overcommitted"]
    for bar in bars:
        assert len(bar.parts) == len(PARTS) + 1
    lacking = cells[1].model_copy(update={"lost": cells[1].lost and cells[1].lost.model_copy(update={"parts_s": {}})})
    (empty,) = lost_bars([lacking], lost_axis([lacking]))
    assert [part.name for part in empty.parts] == ["unexplained"]
    for bar in bars:
        assert all(part.left >= 0.0 and part.width >= 0.0 for part in bar.parts)


def test_the_page_says_what_was_found_and_escapes_names() -> None:
    cells = related()
    odd = cells[1].model_copy(update={"platform": "ssh:<b>", "valid": False, "reasons": ["it <died>"]})
    page = str(section([*cells, odd], [None] * 4).body)
    assert "native whole" in page
    assert "one more such neighbour" in page
    assert "&lt;died&gt;" in page
    assert "<b>@" not in page
    assert "ssh:<b>" not in page
    assert str(section([], []).body).count("<section") == 4


def test_two_runs_are_compared_by_their_elapsed_time() -> None:
    first, second = cell("uml", "half", NATIVE), cell("uml", "half", [2 * one for one in TWICE])
    (elapsed,) = compare_cells(first, second).statistics
    assert (elapsed.verdict, elapsed.words[0]) == ("higher", "elapsed")
    (same,) = compare_cells(first, first).statistics
    assert same.verdict == "no difference shown"
    (few,) = compare_cells(first, cell("uml", "half", TWICE[:2])).statistics
    assert (few.verdict, few.because) == ("not judged", "one run has 2 valid repetitions: measure with --repetitions 4")
    (other,) = compare_cells(first, cell("uml", "half", TWICE, checksum=1)).statistics
    assert other.because == "the checksums differ: it was not the same work"


def test_counters_over_time_are_means_over_virtual_cpus_and_over_dispatches() -> None:
    machine = guest("machine", run=[60.0, 20.0], wait=[30.0, 10.0], wait_per_dispatch_ns=3e6, throttled=5.0)
    slow = machine.vcpus[1]._replace(dispatches_per_s=300.0, wait_per_dispatch_ns=1e6)
    machine = machine._replace(vcpus={0: machine.vcpus[0], 1: slow})
    found = moment_of(RecordedUse(3.0, use([guest("neighbour 1", run=[99.0]), machine], busy=(90.0, 70.0))))
    # A quota that held both back for 5 % of the time has 10 of the 40 % that they waited together.
    assert found == Moment(3.0, busy_percent=80.0, run_percent=40.0, wait_percent=15.0, wait_per_dispatch_ns=1.5e6)
    absent = Absent(absent="withheld")
    unknown = use([guest("machine", unreadable=absent)], busy=(absent, 70.0))
    assert moment_of(RecordedUse(1.0, unknown)) == Moment(1.0, None, None, None, None)
    assert moment_of(RecordedUse(1.0, use())) == Moment(1.0, 20.0, None, None, None)


def test_too_few_seconds_and_a_host_that_could_not_be_read_are_not_judged() -> None:
    few = judged([recording(4), recording(5)], is_guest=True)
    assert [(one.subject, one.verdict, one.samples) for one in few] == [
        ("host", "not judged", 9), ("machine", "not judged", 9),
    ]  # fmt: skip
    assert all("9 samples are too few, 10 are needed" in (one.because or "") for one in few)
    (host,) = judged([[unreadable(0, OSError("gone"))]], is_guest=False)
    assert (host.verdict, host.because) == ("not judged", "the counters cannot be read: gone")
    host, machine = judged([recording(12)], is_guest=True)
    assert (host.verdict, machine.verdict, machine.rule) == ("over-committed host", "over-committed host", "vcpu-wait")
    alien = [row._replace(subject="other") if row.subject == "machine" else row for row in recording(12)]
    assert judged([alien], is_guest=True)[1].because == "the machine was not found among the guests of the host"


@pytest.mark.parametrize(("factor", "unit", "longest"), [(1.0, "ms", 3.0), (1e-3, "us", 3.0), (1e4, "s", 30.0)])
def test_the_axis_of_waits_has_round_marks_of_a_fitting_unit(factor: float, unit: str, longest: float) -> None:
    def scaled(one: Moment) -> Moment:
        wait_ns = one.wait_per_dispatch_ns
        return replace(one, wait_per_dispatch_ns=None if wait_ns is None else factor * wait_ns)

    drawn = [None if one is None else replace(one, moments=tuple(map(scaled, one.moments))) for one in recordings()]
    found = charts(related(), drawn)
    assert found.waits[0].words == f"0 {unit}"
    assert found.waits[-1].words == f"{longest:g} {unit}"
    # The longest wait is 3.2 of that unit: just above the last mark.
    top = min(
        point.y for line in found.charts[2].lines if line.kind == "dispatch" for piece in line.pieces for point in piece
    )
    assert 0.0 < top < found.waits[-1].place
    assert charts(related(), [None] * 3).waits == ()
