"""The stretch of guests from their counters."""

import pytest
from synthetic_use import guest, use

from stealtime.capacity.figures import guest_figures
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import load_rules, read_rules
from stealtime.capacity.stretching import StretchSeries, add_stretch, stretch_of
from stealtime.vocabulary.readings import Absent

RULE = """
schema_version = 1
[[rules]]
id = "stretched"
verdict = "over-committed host"
about = "guest"
conditions = [{ figure = "vcpu_stretch", above = 1.5 }]
source = "this test"
date = "2026-11-27"
why = "its work takes longer than it should"
change = "move it"
"""


def test_the_stretch_is_what_was_wanted_over_what_ran() -> None:
    one = guest(run=[25.0, 50.0], wait=[50.0, 0.0])
    assert stretch_of([one], 0) == pytest.approx(3.0)
    assert stretch_of([one], 1) == pytest.approx(1.0)
    assert stretch_of([one]) == pytest.approx(125 / 75)


def test_seconds_count_by_the_work_in_them_not_each_alike() -> None:
    # 90 % of a second without a wait, then a second of 2 % in which it waits for as long.
    seen = [guest(run=[90.0], wait=[0.0]), guest(run=[2.0], wait=[2.0])]
    assert stretch_of(seen) == pytest.approx(94 / 92)
    assert StretchSeries(seen).mean == pytest.approx(94 / 92)


def test_what_its_quota_takes_is_no_stretch() -> None:
    held = guest(run=[50.0], wait=[50.0], throttled=50.0, quota_cpus=0.5)
    assert stretch_of([held]) == pytest.approx(1.0)


def test_a_guest_of_several_processes_waits_no_longer_than_others_ran() -> None:
    assert stretch_of([guest(run=[50.0], wait=[40.0], others_run=10.0)]) == pytest.approx(1.2)


def test_who_hardly_ran_has_no_stretch_and_who_got_nothing_is_told_apart() -> None:
    idle, starved = stretch_of([guest(run=[0.1], wait=[0.5])]), stretch_of([guest(run=[0.0], wait=[80.0])])
    assert isinstance(idle, Absent)
    assert "ran for less than 1 %" in idle.absent
    assert isinstance(starved, Absent)
    assert "waited" in starved.absent
    lost = stretch_of([guest(unreadable=Absent(absent="it is gone"))])
    assert isinstance(lost, Absent)
    assert lost.absent == "it is gone"


def test_the_interval_is_as_wide_as_the_stretch_varies() -> None:
    steady = StretchSeries([guest(run=[40.0], wait=[20.0])] * 20)
    assert steady.interval(95.0) == pytest.approx((1.5, 1.5))
    # Twice as much work in every second second, always as much stretched: no doubt about the ratio.
    loads = StretchSeries([guest(run=[20.0 * (1 + n % 2)], wait=[10.0 * (1 + n % 2)]) for n in range(20)])
    assert loads.interval(95.0) == pytest.approx((1.5, 1.5))
    varied = StretchSeries([guest(run=[40.0], wait=[20.0 + 10 * (-1) ** (n // 2)]) for n in range(20)])
    low, high = varied.interval(95.0)
    assert varied.mean == pytest.approx(1.5)
    assert low < 1.45 < 1.55 < high


def test_every_virtual_cpu_and_the_guest_have_the_figure_and_rules_may_use_it() -> None:
    seen = [guest("web", run=[50.0, 80.0], wait=[50.0, 0.0])] * 12
    figures = guest_figures(seen)
    add_stretch(figures, seen)
    assert figures.parts["vCPU 0"]["vcpu_stretch"].mean == pytest.approx(2.0)
    assert figures.whole["stretch"].mean == pytest.approx(180 / 130)
    uses = [use([one]) for one in seen]
    _, (judged,) = judge(uses, read_rules(RULE, "this test"))
    assert judged.verdict == "over-committed host"
    _, (builtin,) = judge(uses, load_rules())
    assert builtin.figures.parts["vCPU 1"]["vcpu_stretch"].mean == pytest.approx(1.0)
