"""What a machine tells of itself while it works, as series and panels."""

import pytest
from stretch_cells import recording

from stealtime.capacity.counters import kernel_rates
from stealtime.capacity.counters.kernel_rates import GuestLook, KernelLook, parse_interrupts
from stealtime.capacity.recording import HOST, Row, further_rows, uses_of
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.studies.stretch.analysis.inside import NOTHING_TOLD, Reading, put_together
from stealtime.studies.stretch.page.inside import missing, panels
from stealtime.vocabulary.readings import Absent

S = 10**9
INTERRUPTS = b"""\
            CPU0       CPU1
  0:         47          3   IO-APIC   2-edge      timer
 24:          1          0  PCI-MSIX-0000:00:01.0   0-edge      virtio0-config
NMI:          9          9   Non-maskable interrupts
LOC:       1000       2000   Local timer interrupts
RES:         30         12   Rescheduling interrupts
CAL:          5          6   Function call interrupts
ERR:          7
"""


def told(second: int, program: str, figure: str, value: int) -> Reading:
    return Reading(second * S, S, program, figure, value)


def readings(seconds: int = 3) -> list[Reading]:
    """A machine of one CPU: the work always wants it with three threads, a shell now and then."""
    rows = []
    for second in range(1, seconds + 1):
        rows += [
            told(second, "", "threads_wanting_cpu", 3),
            told(second, "", "context_switches", 200),
            told(second, "", "interrupts", 250),
            told(second, "contend", "run_ns", 900_000_000),
            told(second, "contend", "ready_ns", 2 * S),
        ]
        if second == 2:
            rows += [told(second, "<b>sh</b>", "run_ns", 100_000_000), told(second, "<b>sh</b>", "ready_ns", S // 2)]
    return rows


def test_interrupts_are_summed_by_kind_over_all_cpus() -> None:
    assert parse_interrupts(INTERRUPTS) == {
        "device_interrupts_per_s": 51,
        "timer_interrupts_per_s": 3000,
        "reschedule_interrupts_per_s": 42,
        "call_interrupts_per_s": 11,
    }


def test_what_went_backwards_or_was_not_counted_has_no_rate() -> None:
    before = KernelLook(1, {"context_switches_per_s": 100, "timer_interrupts_per_s": 50}, {})
    after = KernelLook(None, {"context_switches_per_s": 300, "timer_interrupts_per_s": 40, "new": 1}, {})
    figures = dict(kernel_rates.host_figures(before, after, 2.0))
    assert figures["context_switches_per_s"] == 100.0
    assert isinstance(figures["timer_interrupts_per_s"], Absent)
    assert isinstance(figures["threads_wanting_cpu"], Absent)
    assert "new" not in figures


def test_a_guest_under_kvm_has_exits_and_the_time_in_which_it_was_executed() -> None:
    before = GuestLook(CountersLook(0, 1, {0: {"exits": 100, "hypercalls": 7}}), (1000, 2))
    after = GuestLook(CountersLook(2, 3, {0: {"exits": 300, "hypercalls": 6}}), (1160, 2))
    figures = dict(kernel_rates.guest_figures(before, after, 2.0))
    assert figures["exits_per_s"] == 100.0
    assert isinstance(figures["hypercalls_per_s"], Absent)
    assert figures["guest_executed_percent"] == pytest.approx(40.0)
    elsewhere = GuestLook(Absent(absent="no KVM"), None)
    assert list(kernel_rates.guest_figures(elsewhere, elsewhere, 2.0)) == []


def test_threads_that_stand_ready_are_those_that_wait_in_the_mean() -> None:
    inside = put_together(readings(), [])
    assert list(inside.run_percent) == ["contend", "<b>sh</b>"]
    assert inside.ready_threads["contend"] == ((1.0, 2.0), (2.0, 2.0), (3.0, 2.0))
    # What is not told of an interval is nothing, and no gap.
    assert inside.ready_threads["<b>sh</b>"] == ((1.0, 0.0), (2.0, 0.5), (3.0, 0.0))
    assert inside.run_percent["contend"][0] == (1.0, 90.0)
    assert inside.machine["context_switches_per_s"][2] == (3.0, 200.0)


def test_programs_beyond_the_first_are_one() -> None:
    rows = [told(1, name, "run_ns", value) for value, name in enumerate("abcdefg", 1)]
    rows += [told(1, "all others", "run_ns", 10), told(1, "contend", "run_ns", 1)]
    inside = put_together(rows, [])
    assert list(inside.run_percent) == ["contend", "g", "f", "e", "d", "all others"]
    ((_, others_percent),) = inside.run_percent["all others"]
    assert others_percent == pytest.approx(100.0 * (1 + 2 + 3 + 10) / S)


def test_rows_for_charts_change_no_use_and_are_found_again() -> None:
    rows = recording(3)
    first = Row(S, S, HOST, HOST, "", "", None, None)
    more = further_rows(first, [("context_switches_per_s", 7.0), ("device_interrupts_per_s", Absent(absent="why"))])
    assert uses_of([rows]) == uses_of([[*rows, *more]])
    inside = put_together([], [*rows, *more])
    assert inside.host == {"context_switches_per_s": ((1.0, 7.0),)}
    assert inside.guest["dispatches_per_s"] == ((1.0, 100.0), (2.0, 100.0), (3.0, 100.0))


def test_panels_stand_for_what_was_told_and_nothing_else() -> None:
    assert panels(NOTHING_TOLD) == []
    drawn = {one.title.rpartition(" (")[2]: one for one in panels(put_together(readings(130), recording(130)))}
    assert list(drawn) == ["25, 29)", "26)", "28)", "30, 6)"]
    for panel in drawn.values():
        for line in panel.lines:
            assert 2 <= len(line.points) <= 60
            assert all(0.0 <= x <= 100.0 and 0.0 <= y <= 100.0 for x, y in line.points)
    assert missing(put_together(readings(), recording(3))) is not None
    assert missing(put_together(readings(), [])) is None, "natively there is no guest"
    assert [one.is_right for one in drawn["25, 29)"].lines] == [False, False, True]
    assert drawn["28)"].lines[1].words == "dispatches of its virtual CPUs: 100 in the mean, at most 100"
