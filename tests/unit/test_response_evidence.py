"""The rig that holds jobs against their bounds: made-up histories whose causes are known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from kept_deadlines import RanJobs, exceeding, own_time
from numpy.typing import NDArray

US, MS = 1_000, 1_000_000
CHARGED = {"event_latency": 50 * US, "scheduling": 10 * US, "context_switch": 5 * US, "release": 5 * US, "tick": 2 * US}
COSTS, BOUNDS = (2 * MS, 4 * MS), (2_200 * US, 6_400 * US)


def history(*, second_begins_late_ns: int = 0, first_stands_still_ns: int = 0) -> RanJobs:
    """Both tasks are released at 0 after the counter's 2^60; 100 us go to overheads."""
    zero = 1 << 60
    first = 2 * MS + first_stands_still_ns
    finish = (first + 50 * US, first + 4 * MS + 100 * US + second_begins_late_ns)
    return RanJobs(
        task=np.array([0, 1]),
        release=np.array([zero, zero]),
        finish=zero + np.array(finish),
        own=np.array([first, 4 * MS]),
    )


def bounds(*without_blocking: int) -> Callable[[int, int], int]:
    """The second task is kept waiting by one more job of the first where it is blocked for over 6 ms."""

    def of(task: int, blocking_ns: int) -> int:
        again = COSTS[0] if task == 1 and blocking_ns > 6 * MS else 0
        return without_blocking[task] + blocking_ns + again

    return of


def test_jobs_within_their_bounds_are_not_named() -> None:
    assert exceeding(history(), bounds(*BOUNDS), COSTS, CHARGED, 4 * MS) == []


def test_a_cpu_that_stood_still_in_an_urgent_job_explains_the_less_urgent_one() -> None:
    first, second = exceeding(history(first_stands_still_ns=3 * MS), bounds(*BOUNDS), COSTS, CHARGED, 4 * MS)
    assert (first.task, first.stood_still_ns, first.unexplained_ns) == (0, 3 * MS, 0)
    assert (second.task, second.stood_still_ns, second.unexplained_ns) == (1, 3 * MS, 0)
    assert second.beyond_charge_ns == 0


def test_overheads_beyond_the_charge_explain_a_late_job_and_by_how_much() -> None:
    (late,) = exceeding(history(second_begins_late_ns=5 * MS), bounds(*BOUNDS), COSTS, CHARGED, 4 * MS)
    # Of 5.1 ms that were no work: 50 us of latency, two jobs with 30 us of switching, two releases, three ticks.
    assert late.beyond_charge_ns == 5_100 * US - (50 + 2 * 30 + 2 * 5 + 3 * 2) * US
    assert (late.stood_still_ns, late.unexplained_ns) == (0, 0)


def test_a_late_job_that_nothing_explains_contradicts_the_analysis() -> None:
    too_low = bounds(BOUNDS[0], 5 * MS)
    (late,) = exceeding(history(), too_low, COSTS, CHARGED, 4 * MS)
    assert (late.task, late.response_ns, late.stood_still_ns, late.beyond_charge_ns) == (1, 6_100 * US, 0, 0)
    assert late.unexplained_ns == 1_100 * US
    assert "1.100 ms unexplained" in late.text


def test_urgent_jobs_that_come_in_the_time_that_was_lost_count_too() -> None:
    # 7 ms of nothing, and one more job of the first task, which the bound with that blocking has as well.
    one = history(second_begins_late_ns=9 * MS)
    again = RanJobs(
        task=np.append(one.task, 0),
        release=np.append(one.release, one.release[0] + 8 * MS),
        finish=np.append(one.finish, one.release[0] + 10 * MS + 20 * US),
        own=np.append(one.own, 2 * MS),
    )
    (late,) = exceeding(again, bounds(*BOUNDS), COSTS, CHARGED, 4 * MS)
    assert (late.task, late.unexplained_ns) == (1, 0)
    assert 6_900 * US < late.beyond_charge_ns < 7_000 * US
    # Without it the response would contradict the analysis.
    assert late.response_ns > BOUNDS[1] + late.beyond_charge_ns


def test_what_stood_still_before_the_jobs_began_to_wait_explains_nothing() -> None:
    one = history()
    earlier = RanJobs(
        task=np.append(one.task, 0),
        release=np.append(one.release, one.release[0] - 20 * MS),
        finish=np.append(one.finish, one.release[0] - 10 * MS),
        own=np.append(one.own, 10 * MS),
    )
    too_low = bounds(BOUNDS[0], 5 * MS)
    found = exceeding(earlier, too_low, COSTS, CHARGED, 4 * MS)
    assert {late.task: late.stood_still_ns for late in found} == {0: 8 * MS, 1: 0}
    # Until it is done only after their release: then they wait for it as well.
    longer = replace(earlier, finish=np.append(one.finish, one.release[0] + 1))
    found = exceeding(longer, too_low, COSTS, CHARGED, 4 * MS)
    assert {late.task: late.stood_still_ns for late in found} == {0: 8 * MS, 1: 8 * MS}


def trace(*rows: tuple[int, int, int]) -> dict[str, NDArray[np.int64]]:
    """Time, kind and the thread that takes the CPU, all on CPU 1; a switch on CPU 0 is there to be left out."""
    zero = 1 << 60
    table = np.array([(zero + 1, 0, 99, 0), *((zero + time, kind, other, 1) for time, kind, other in rows)], np.int64)
    return {"time": table[:, 0], "kind": table[:, 1], "other": table[:, 2], "cpu": table[:, 3]}


def test_own_time_is_without_interrupts_other_threads_and_what_lies_outside() -> None:
    rows = (
        (0, 7, 0),
        (100, 0, 7),
        (200, 6, 0),
        (210, 4, 0),
        (230, 5, 0),
        (250, 7, 0),
        (400, 0, 8),
        (700, 0, 7),
        (1000, 0, 8),
    )
    zero = 1 << 60
    begin, end = np.array([150, 100, 240, 700, 0]) + zero, np.array([800, 1000, 260, 700, 90]) + zero
    assert own_time(trace(*rows), 1, 7, begin, end).tolist() == [50 + 150 + 100, 100 + 150 + 300, 10, 0, 0]
    assert own_time(trace(*rows), 1, 8, begin, end).tolist()[:2] == [300, 300]
