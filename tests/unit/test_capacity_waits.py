"""Who ran while a virtual CPU waited, on made-up schedules whose truth is known."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from stealtime.capacity.watch.waits import LOST, RUNTIME, SWITCH, WAKING, Trace, Waited, waits_of

GUEST, HOG, OTHER = 100, 200, 300
VCPU = ("a", 0)
RUNNABLE, ASLEEP = 0, 1
Event = tuple[int, int, int, int, int, int]


def switch(time: int, cpu: int, leaves: int, comes: int, state: int = RUNNABLE) -> Event:
    return time, cpu, SWITCH, leaves, state, comes


def waking(time: int, woken: int, on_cpu: int = 0) -> Event:
    return time, on_cpu, WAKING, OTHER, on_cpu, woken


def runtime(time: int, cpu: int, whose: int, ran: int) -> Event:
    return time, cpu, RUNTIME, whose, ran, whose


def trace_of(events: Sequence[Event]) -> Trace:
    time, cpu, kind, thread, value, other = np.array(events, dtype=np.int64).T
    return Trace(time, cpu, kind, thread, value, other, hz=1e9)


def waited(events: Sequence[Event], covered: tuple[int, int] = (0, 1000), threads: Sequence[int] = (GUEST,)) -> Waited:
    return waits_of(trace_of(sorted(events, key=lambda event: event[0])), {VCPU: threads}, covered)[VCPU]


def test_a_thread_that_was_put_off_waited_for_who_came() -> None:
    found = waited([switch(100, 0, GUEST, HOG), switch(400, 0, HOG, OTHER), switch(500, 0, OTHER, GUEST)])
    assert found == Waited(400, {HOG: 300, OTHER: 100}, 0, 0)


def test_a_thread_that_sleeps_does_not_wait_until_it_is_woken() -> None:
    events = [switch(100, 0, GUEST, HOG, ASLEEP), waking(300, GUEST), switch(450, 0, HOG, GUEST)]
    assert waited(events) == Waited(150, {HOG: 150}, 0, 0)


def test_a_woken_thread_waits_where_it_runs_in_the_end() -> None:
    events = [
        switch(50, 1, 0, OTHER), switch(100, 0, GUEST, HOG, ASLEEP), waking(300, GUEST, on_cpu=0),
        switch(450, 1, OTHER, GUEST), switch(460, 0, HOG, 0),
    ]  # fmt: skip
    assert waited(events) == Waited(150, {OTHER: 150}, 0, 0)


def test_a_thread_that_is_moved_waited_for_who_put_it_off() -> None:
    events = [switch(10, 1, OTHER, 0), switch(100, 0, GUEST, HOG), switch(200, 1, 0, GUEST), switch(900, 0, HOG, 0)]
    assert waited(events) == Waited(100, {HOG: 100}, 0, 0)


def test_an_idle_cpu_is_nobodys_fault() -> None:
    # Its quota is used up: it could go on, and nobody runs.
    assert waited([switch(100, 0, GUEST, 0), switch(300, 0, 0, GUEST)]) == Waited(200, {}, 200, 0)


def test_a_wait_that_outlasts_the_recording_counts_as_far_as_it_was_seen() -> None:
    assert waited([switch(100, 0, GUEST, HOG)]) == Waited(900, {HOG: 900}, 0, 0)


def test_a_thread_that_is_woken_just_before_it_leaves_waits_from_then_on() -> None:
    events = [
        switch(10, 0, HOG, GUEST),
        waking(99, GUEST),
        switch(100, 0, GUEST, HOG, ASLEEP),
        switch(300, 0, HOG, GUEST),
    ]
    assert waited(events) == Waited(200, {HOG: 200}, 0, 0)


def test_a_wake_up_that_came_to_nothing_starts_no_wait_later() -> None:
    events = [
        switch(10, 0, HOG, GUEST), waking(50, GUEST), switch(100, 0, GUEST, HOG, ASLEEP), waking(250, GUEST),
        switch(300, 0, HOG, GUEST),
    ]  # fmt: skip
    assert waited(events) == Waited(50, {HOG: 50}, 0, 0)


def test_a_missing_switch_blames_nobody() -> None:
    # OTHER leaves who never came: when HOG left is not known.
    events = [switch(100, 0, GUEST, HOG), switch(400, 0, OTHER, GUEST)]
    assert waited(events) == Waited(300, {}, 0, 300)


def test_what_the_kernel_added_up_tells_of_a_missing_switch() -> None:
    events = [
        switch(100, 0, GUEST, HOG), runtime(250, 0, HOG, 150), runtime(400, 0, OTHER, 150),
        switch(400, 0, OTHER, GUEST),
    ]  # fmt: skip
    assert waited(events) == Waited(300, {HOG: 150, OTHER: 150}, 0, 0)


def test_a_missing_departure_is_where_the_accounts_of_the_thread_end() -> None:
    events = [
        switch(10, 0, HOG, GUEST), runtime(200, 0, GUEST, 190), runtime(500, 0, HOG, 300), switch(500, 0, HOG, GUEST),
    ]  # fmt: skip
    assert waited(events) == Waited(300, {HOG: 300}, 0, 0)


def test_events_that_were_lost_blame_nobody() -> None:
    events = [switch(100, 0, GUEST, HOG), (250, 0, LOST, 0, 7, 0), switch(400, 0, HOG, GUEST)]
    assert waited(events) == Waited(300, {}, 0, 300)


def test_threads_of_one_virtual_cpu_wait_once() -> None:
    # A kernel of User-Mode Linux is woken while its program waits: one virtual CPU.
    events = [
        switch(100, 0, GUEST, HOG),
        waking(200, GUEST + 1),
        switch(400, 0, HOG, GUEST),
        switch(600, 0, GUEST, GUEST + 1),
    ]
    assert waited(events, threads=(GUEST, GUEST + 1)) == Waited(300, {HOG: 300}, 0, 0)


def random_schedule(seed: int) -> tuple[list[Event], dict[int, int]]:
    """Give the events of one CPU for which four threads compete, and for whom the guest waited in truth."""
    chance = random.Random(seed)  # noqa: S311
    threads = [GUEST, HOG, OTHER, 400]
    asleep = dict.fromkeys(threads, False)
    time, running = 0, GUEST
    truth = dict.fromkeys(threads, 0)
    events: list[Event] = []
    for _ in range(400):
        length = chance.randint(1, 500)
        if running != GUEST and not asleep[GUEST]:
            truth[running] += length
        time += length
        events.append(runtime(time, 0, running, length))
        for thread in threads:
            if asleep[thread] and chance.random() < 0.5:
                asleep[thread] = False
                events.append(waking(time, thread))
        sleeps = chance.random() < 0.3
        awake = [thread for thread in threads if thread != running and not asleep[thread]]
        if not awake:
            continue
        asleep[running] = sleeps
        chosen = chance.choice(awake)
        events.append(switch(time, 0, running, chosen, ASLEEP if sleeps else RUNNABLE))
        running = chosen
    events.append(switch(time + 1, 0, running, running))
    return events, truth


@pytest.mark.parametrize("lost_percent", [0, 2])
def test_recall_and_false_blame_on_random_schedules(lost_percent: int) -> None:
    found_time = blamed = true_time = 0
    for seed in range(30):
        events, truth = random_schedule(seed)
        chance = random.Random(seed)  # noqa: S311
        kept = [one for one in events if one[2] != SWITCH or chance.random() * 100 >= lost_percent]
        end = events[-1][0]
        # Events of one moment stay in the order in which they happened.
        found = waits_of(trace_of(kept), {VCPU: (GUEST,)}, (0, end))[VCPU].for_thread
        true_time += sum(truth.values())
        blamed += sum(found.values())
        found_time += sum(min(found.get(thread, 0), length) for thread, length in truth.items())
    assert found_time >= 0.95 * true_time
    assert blamed - found_time <= 0.01 * blamed
    if lost_percent == 0:
        assert found_time == pytest.approx(true_time, rel=0.002)
