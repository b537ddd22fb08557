"""KVM's counters as QEMU hands them out, and what two readings of them tell."""

from typing import Any

import numpy as np
import pytest
from counted_exits import Exits, count_exits
from test_qemu_monitor import ANSWERS, scripted_qemu

from stealtime.lab.platforms.kvm_counters import COUNTERS, CountersGained, CountersLook, between, look, read_answer
from stealtime.lab.platforms.qemu_monitor import QemuMonitor
from stealtime.vocabulary.readings import Absent, Value
from stealtime.wire.message import TracingOutcome

CPUS = [
    {"cpu-index": 1, "thread-id": 4712, "qom-path": "/machine/unattached/device[1]"},
    {"cpu-index": 0, "thread-id": 4711, "qom-path": "/machine/unattached/device[0]"},
]


def stats_of(path: str, **values: Any) -> dict[str, Any]:
    return {
        "provider": "kvm",
        "qom-path": path,
        "stats": [{"name": name, "value": value} for name, value in values.items()],
    }


# QEMU puts the last virtual CPU first.
COUNTED = [
    stats_of("/machine/unattached/device[1]", exits=700, halt_exits=40, halt_wait_ns=9_000_000_000),
    stats_of(
        "/machine/unattached/device[0]", exits=100, halt_exits=4, halt_wait_ns=5, guest_mode=False,
        halt_wait_hist=[0, 3, 1], invented_by_a_later_kernel=77,
    ),
]  # fmt: skip


async def looked(answers: dict[str, Any]) -> CountersLook | Absent:
    monitor = QemuMonitor("test")
    async with scripted_qemu(ANSWERS | {"query-cpus-fast": CPUS} | answers) as (ours, asked):
        await monitor.connect(ours)
        found = await look(monitor)
        await monitor.close()
    assert "query-stats" in asked
    return found


async def test_each_virtual_cpu_has_its_counters_whatever_the_order_of_the_answer() -> None:
    found = await looked({"query-stats": COUNTED})
    assert isinstance(found, CountersLook)
    assert found.vcpus == {
        0: {"exits": 100, "halt_exits": 4, "halt_wait_ns": 5},
        1: {"exits": 700, "halt_exits": 40, "halt_wait_ns": 9_000_000_000},
    }
    assert found.took_ns > 0


def test_histograms_states_and_unknown_names_are_left_out() -> None:
    answer = [stats_of("cpu", exits=1, io_exits=[1, 2], halt_exits=True, guest_mode=False, nobody_knows=3)]
    assert read_answer(answer) == {"cpu": {"exits": 1}}


def test_other_providers_and_other_shapes_of_answer_give_nothing() -> None:
    other = stats_of("cpu", exits=1) | {"provider": "cryptodev"}
    assert read_answer([other, "text", {"provider": "kvm", "stats": []}]) == {}
    assert read_answer({"return": 1}) == {}


async def test_a_qemu_without_the_command_says_so_and_raises_nothing() -> None:
    found = await looked({})
    assert found == Absent(
        absent="QEMU of test failed at query-stats: no such thing; QEMU reports counters from 7.1 on"
    )


@pytest.mark.parametrize("answer", [[], [stats_of("/machine/unattached/device[0]", halt_wait_hist=[1])]])
async def test_a_kernel_without_counters_says_so(answer: list[Any]) -> None:
    assert await looked({"query-stats": answer}) == Absent(
        absent="QEMU gave no counter of KVM; Linux has them from 5.14 on"
    )


def test_every_counter_of_time_is_named_so_and_no_name_comes_twice() -> None:
    assert len({counter.name for counter in COUNTERS}) == len(COUNTERS)
    assert all((counter.unit == "ns") == counter.name.endswith("_ns") for counter in COUNTERS)


def at(answered_ns: int, vcpus: dict[int, dict[str, int]], took_ns: int = 10) -> CountersLook:
    return CountersLook(answered_ns - took_ns, answered_ns, vcpus)


def test_what_was_gained_is_told_of_each_virtual_cpu_and_in_sum() -> None:
    before = at(1_000, {0: {"exits": 5, "halt_wait_ns": 100}, 1: {"exits": 50, "halt_wait_ns": 0}}, took_ns=30)
    after = at(9_000, {0: {"exits": 7, "halt_wait_ns": 400}, 1: {"exits": 150, "halt_wait_ns": 0}}, took_ns=20)
    gained = between(before, after)
    assert gained.vcpus[0] == {"exits": Value(value=2), "halt_wait_ns": Value(value=300)}
    assert gained.vcpus[1] == {"exits": Value(value=100), "halt_wait_ns": Value(value=0)}
    assert gained.total == {"exits": Value(value=102), "halt_wait_ns": Value(value=300)}
    # From the end of the first reading to the beginning of the second.
    assert (gained.begin_monotonic_raw_ns, gained.end_monotonic_raw_ns, gained.reading_ns) == (1_000, 8_980, 30)


def test_a_counter_that_went_down_is_absent_and_so_is_its_sum() -> None:
    gained = between(
        at(1, {0: {"exits": 9, "io_exits": 3}, 1: {"exits": 1, "io_exits": 1}}),
        at(2, {0: {"exits": 8, "io_exits": 4}, 1: {"exits": 5, "io_exits": 1}}),
    )
    went_down = Absent(absent="virtual CPU 0: the count went down, from 9 to 8")
    assert gained.vcpus[0] == {"exits": went_down, "io_exits": Value(value=1)}
    assert gained.vcpus[1]["exits"] == Value(value=4)
    assert gained.total == {"exits": went_down, "io_exits": Value(value=1)}


@pytest.mark.parametrize(("first", "second", "when"), [([0], [0, 1], "before"), ([0, 1], [0], "after")])
def test_a_virtual_cpu_that_came_or_went_is_absent(first: list[int], second: list[int], when: str) -> None:
    gained = between(at(1, {cpu: {"exits": 5} for cpu in first}), at(2, {cpu: {"exits": 6} for cpu in second}))
    absent = Absent(absent=f"virtual CPU 1 was not there {when} the trial")
    assert gained.vcpus == ({"exits": Value(value=1)}, {"exits": absent})
    assert gained.total == {"exits": absent}


def test_a_counter_that_one_reading_lacks_is_absent() -> None:
    gained = between(at(1, {0: {"exits": 5}}), at(2, {0: {"exits": 5, "hypercalls": 2}}))
    assert gained.total == {
        "exits": Value(value=0),
        "hypercalls": Absent(absent="virtual CPU 0 had no such counter before the trial"),
    }


def test_traced_exits_are_counted_between_the_readings_and_with_them() -> None:
    tracing = TracingOutcome.model_validate(
        {
            "clock": "x86-tsc", "tsc_hz": 2e9, "groups": {}, "names": [], "findings": [], "events": 6, "lost": 0,
            "start": {"tsc": 10_000, "monotonic_raw_ns": 500, "monotonic_ns": 500, "bracket_tsc": 2},
            "end": {"tsc": 20_000, "monotonic_raw_ns": 5_500, "monotonic_ns": 5_500, "bracket_tsc": 2},
        }
    )  # fmt: skip
    counters = CountersGained(
        vcpus=(), total={}, begin_monotonic_raw_ns=1_500, end_monotonic_raw_ns=2_500, reading_ns=100
    )
    # 1,400 ns is a reading before the first was complete, 2,600 ns one after the second was begun.
    times_ns = np.array([1_399, 1_400, 1_500, 2_500, 2_600, 2_601])
    times = (10_000 + (times_ns - 500) * 2).astype(np.uint64)
    assert count_exits(times, tracing, counters) == (2, 4)


@pytest.mark.parametrize(("counted", "agree"), [(95, False), (96, True), (105, True), (114, True), (115, False)])
def test_counts_agree_within_the_readings_and_an_exit_at_each_edge(counted: int, agree: bool) -> None:
    assert Exits(counted, traced_between=100, traced_with_readings=110, vcpus=2).agree is agree
