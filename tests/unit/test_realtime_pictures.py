"""The figures of the study of real time, from made-up results whose right answers are known."""

import math
from typing import cast

import numpy as np
import pytest
from realtime_pictures import COUNTS, cell, cells, condition, decomposition, gathered
from realtime_pictures import samples as realtime_samples

from stealtime._core import JOB_PARTS
from stealtime.report.page.bar_figure import draw_bars
from stealtime.report.page.plane import WIDTH
from stealtime.studies.realtime.analysis.decomposition import PARTS, decompose
from stealtime.studies.realtime.analysis.gathered import Gathered
from stealtime.studies.realtime.analysis.overheads import TrialOverheads
from stealtime.studies.realtime.page.pictures import missed_figure, overhead_rows, part_bars
from stealtime.studies.realtime.page.section import section


def trial(*latencies: dict[str, int], followed: tuple[bool, ...] = ()) -> TrialOverheads:
    """Chains with parts in cycles, one cycle a nanosecond."""
    chains = {name: np.array([one.get(name, 0) for one in latencies], np.uint64) for name in JOB_PARTS}
    found = {
        "chains": {
            **chains,
            "discard": np.array([not one for one in followed or (True,) * len(latencies)], np.uint8),
            "taken": np.array([one.get("taken", 0) for one in latencies], np.uint16),
        }
    }
    stamped = np.array([sum(one.get(name, 0) for name in JOB_PARTS) for one in latencies], np.int64)
    return TrialOverheads(cast("dict", found), 1.0, len(latencies), stamped)  # type: ignore[arg-type,type-arg]


def test_every_part_of_a_chain_is_in_one_part_of_the_picture() -> None:
    assert sorted(name for parts in PARTS.values() for name in parts) == sorted(JOB_PARTS)


def test_the_largest_of_every_part_is_never_below_the_longest_seen() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        jobs = [{name: int(generator.integers(1, 1000)) for name in JOB_PARTS} for _ in range(20)]
        (found,) = decompose({("native", 1): [trial(*jobs)]})
        longest = max(sum(job.values()) for job in jobs)
        assert found.longest_seen_ns == longest == sum(found.longest_ns.values())
        assert found.composed_ns >= longest


def test_latencies_are_split_over_trials_and_only_where_they_were_followed() -> None:
    first = trial({"event_latency": 100, "dispatch": 10}, {"event_latency": 9_999}, followed=(True, False))
    second = trial({"event_latency": 50, "scheduling": 300, "interrupt_exit": 20, "taken": 1})
    (found,) = decompose({("native", 3): [first, second]})
    assert (found.jobs, found.taken, found.tasks) == (2, 1, 3)
    assert found.mean_ns["event latency"] == 75
    assert found.longest_ns["until the scheduler has chosen"] == 320
    assert sum(found.longest_ns.values()) == 370
    # A job that could not be split was later than all parts together.
    assert (found.unsplit, found.longest_seen_ns, found.composed_ns) == (1, 9_999, 9_999)
    (whole,) = decompose({("native", 3): [second, trial({"event_latency": 100, "dispatch": 10})]})
    assert (whole.unsplit, whole.longest_seen_ns, whole.composed_ns) == (0, 370, 420)


def test_jobs_that_waited_for_more_urgent_ones_are_apart() -> None:
    jobs = [{"event_latency": 100, "preemption": 5_000}, {"event_latency": 300}, {"event_latency": 200}]
    (found,) = decompose({("native", 3): [trial(*jobs)]})
    assert (found.jobs, found.undelayed) == (3, 2)
    assert found.mean_ns["event latency"] == 250
    assert sum(found.longest_ns.values()) == 300
    assert (found.longest_seen_ns, found.composed_ns) == (5_100, 5_300)


def test_a_maximum_is_not_of_more_samples_than_another() -> None:
    few, many = condition("native", 1, 1.0), condition("guest", 1, 1.0)
    short = type(few)("native", 1, {"release": realtime_samples(800, 3_000, count=10)})
    (row,) = overhead_rows([short, type(many)("guest", 1, {"release": many.samples["release"]})])
    for _, figure in row.figures:
        point = figure.lines[1].points[0]
        assert point is not None
        assert "10 samples" in point.words


def test_average_and_worst_stand_where_the_samples_say_on_common_axes() -> None:
    rows = overhead_rows(gathered().conditions)
    assert [row.title for row in rows][:2] == ["Scheduling overhead", "Context-switch overhead"]
    (native, first), (guest, second) = rows[0].figures
    assert (native, guest) == ("native", "qemu-tcg-paravirt")
    assert (first.x, first.y) == (second.x, second.y)
    average, worst = first.lines
    assert [point.x for point in average.points if point] == list(COUNTS)
    for line, ns in ((average, 1_000), (worst, 10_000)):
        assert line.points[0] is not None
        assert line.points[0].y == pytest.approx(math.log10(ns * 1.1))
    assert rows[0].boundary == "dispatch"


def test_bars_add_up_to_their_end() -> None:
    figure = part_bars([decomposition("native", 1, 1.0)], lambda one: dict(one.mean_ns), "parts")
    assert figure is not None
    (bar,) = figure.rows
    pieces = figure.pieces(bar)
    assert pieces[-1][1] + pieces[-1][2] == pytest.approx(WIDTH / 1.15, abs=0.05)
    assert draw_bars(figure).count("<rect") == len(PARTS)


def test_misses_are_drawn_where_more_than_one_number_of_tasks_was() -> None:
    figure = missed_figure(cells())
    assert figure is not None
    assert len(figure.lines) == 2
    last = figure.lines[1].points[-1]
    assert last is not None
    assert (last.x, last.y) == (20, 0.1)
    assert (last.low, last.high) == pytest.approx((0.08, 0.12))
    assert missed_figure([cell("native", 5, 0)]) is None


def test_a_page_without_traces_says_why() -> None:
    body = section(cells(), Gathered((), (), None, "no trial was traced")).body
    assert "None are shown: no trial was traced" in body
    assert "No curve: no trial was traced" in body


def test_the_page_says_that_nothing_is_bounded_and_names_the_missing_events() -> None:
    body = section(cells(), gathered()).body
    assert body.count('<td class="none">not bounded</td>') == 4
    assert "CONFIG_IRQSOFF_TRACER" in body
    assert "half of the sets are schedulable up to a utilization" in body


def test_what_has_no_sample_of_an_overhead_is_not_drawn() -> None:
    only = condition("native", 1, 1.0)
    rows = overhead_rows([only, type(only)("guest", 1, {"release": only.samples["release"]})])
    assert [(row.title, len(row.figures)) for row in rows][:1] == [("Scheduling overhead", 1)]
    assert len(rows[-1].figures) == 2
