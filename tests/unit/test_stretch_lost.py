"""Where lost seconds went, from cells whose parts are known."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from stretch_cells import BUSY, cell

from stealtime.store.model import HostViews
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.cell import waited_ns
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import Guest, StretchCell
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.section import section
from stealtime.studies.stretch.results import Contention
from stealtime.vocabulary.readings import Absent, Reading, Value


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
