"""Guests that share CPUs: the model against textbook examples, and against a simulation of the same scheduler."""

import heapq
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.sharing import Work, share_out, solve_alone, solve_together

ONE = Guest(vcpus=1)
BUSY = Work(tasks=1, elapsed_s=1.0, cpu_s=1.0)


def repairman_cycle_s(tasks: int, cpu_s: float, sleep_s: float) -> float:
    """Exact mean value analysis of one CPU and a delay (M. Reiser and S. Lavenberg, J. ACM 27(2), 1980)."""
    queue = 0.0
    for customers in range(1, tasks + 1):
        response_s = cpu_s * (1.0 + queue)
        queue = customers * response_s / (response_s + sleep_s)
    return response_s + sleep_s


def test_one_guest_is_the_machine_repairman() -> None:
    for tasks, cpu_s, sleep_s in ((1, 2.0, 3.0), (4, 1.0, 9.0), (12, 1.25, 20.0), (500, 0.01, 4.0)):
        solved = solve_alone(tasks, cpu_s, sleep_s, (0.0, 1.0))
        assert solved.cycle_s == pytest.approx(repairman_cycle_s(tasks, cpu_s, sleep_s))
        # The utilization law: what is busy is what was computed.
        assert solved.wants[1] == pytest.approx(tasks * cpu_s / solved.cycle_s)


def test_a_guest_with_as_many_cpus_as_tasks_never_waits() -> None:
    assert solve_alone(3, 2.0, 5.0, (0.0, 1.0, 2.0, 3.0)).cycle_s == pytest.approx(7.0)
    # M/M/2//3: the probabilities are 1, 3a, 3a^2, 3a^3/2 with a = 2/5, up to their sum.
    solved = solve_alone(3, 2.0, 5.0, (0.0, 1.0, 2.0))
    total = 1.0 + 1.2 + 0.48 + 0.096
    assert solved.wants == pytest.approx((1.0 / total, 1.2 / total, 0.576 / total))


def test_cpus_are_shared_out_by_weight_and_what_one_does_not_want_goes_to_the_others() -> None:
    assert share_out([1, 1, 1, 1], [1, 1, 1, 1], 2) == [0.5] * 4
    assert share_out([1, 1], [3, 1], 1) == [0.75, 0.25]
    assert share_out([1, 1, 1], [3, 1, 1], 2) == [1.0, 0.5, 0.5]
    assert share_out([2, 0, 1], [1, 1, 1], 2) == [1.0, 0.0, 1.0]
    assert share_out([0, 0], [1, 1], 2) == [0.0, 0.0]


def test_always_busy_guests_have_the_stretch_of_their_shares() -> None:
    assert solve_together([BUSY] * 4, [ONE] * 4, 2) == pytest.approx([2.0] * 4)
    weighed = [Guest(vcpus=1, weight=300), Guest(vcpus=1, weight=100)]
    assert solve_together([BUSY] * 2, weighed, 1) == pytest.approx([4 / 3, 4.0])
    held = [Guest(vcpus=1, quota_percent=25), ONE]
    assert solve_together([BUSY] * 2, held, 1) == pytest.approx([4.0, 4 / 3], rel=1e-3)


def test_alone_nothing_is_stretched() -> None:
    for work in (BUSY, Work(4, 12.0, 6.0, 30.0), Work(4, 3.2, 6.0), Work(3, 9.0, 2.0, 20.0)):
        assert solve_together([work], [Guest(vcpus=2)], 2) == pytest.approx([1.0])


def test_what_a_guest_could_not_use_alone_it_does_not_miss() -> None:
    two = [Guest(vcpus=2), ONE]
    # Two tasks that exclude each other need one CPU, and the neighbour leaves one.
    assert solve_together([Work(2, 2.0, 2.0), BUSY], two, 2) == pytest.approx([1.0, 1.0])
    # Two that do not: three virtual CPUs of the same weight share two.
    assert solve_together([Work(2, 1.0, 2.0), BUSY], two, 2) == pytest.approx([1.5, 1.5])
    # A timer that came a second late comes as late beside others: of three seconds only one is computed.
    late = solve_together([Work(1, 3.0, 1.0, 1.0), BUSY], [ONE, ONE], 1)
    assert late[0] == pytest.approx(4 / 3)
    # An emulator that computed beside its virtual CPU wants a second CPU for a fifth of the time.
    assert solve_together([Work(1, 1.0, 1.2), BUSY], [ONE, ONE], 2) == pytest.approx([1.2, 1.0])


@dataclass
class _Task:
    guest: int
    left_s: float


def simulated_cycles_s(works: list[Work], weights: list[float], cpus: int, seed: int) -> list[float]:
    """Simulate generalized processor sharing; on several CPUs each guest has one task, all of the same weight."""
    draw = random.Random(seed)  # noqa: S311 - a simulation
    asleep: list[tuple[float, int, int]] = []
    running: list[_Task] = []
    done = [0] * len(works)
    now, number = 0.0, 0
    for guest, work in enumerate(works):
        running += [_Task(guest, draw.expovariate(work.tasks / work.cpu_s)) for _ in range(work.tasks)]
    while sum(done) < 30_000:
        counts = [sum(1 for task in running if task.guest == guest) for guest in range(len(works))]
        busy = sum(weight for weight, count in zip(weights, counts, strict=True) if count)
        speed = [min(1.0, cpus * weights[task.guest] / busy) / counts[task.guest] for task in running]
        ends = [task.left_s / one for task, one in zip(running, speed, strict=True)]
        step_s = min([*ends, asleep[0][0] - now] if asleep else ends)
        now += step_s
        for task, one in zip(running, speed, strict=True):
            task.left_s -= step_s * one
        for task in [one for one in running if one.left_s <= 1e-12]:
            done[task.guest] += 1
            work = works[task.guest]
            number += 1
            sleep_s = draw.expovariate(work.tasks / work.io_s) if work.io_s else 0.0
            heapq.heappush(asleep, (now + sleep_s, number, task.guest))
            running.remove(task)
        while asleep and asleep[0][0] <= now:
            guest = heapq.heappop(asleep)[2]
            running.append(_Task(guest, draw.expovariate(works[guest].tasks / works[guest].cpu_s)))
    return [works[guest].tasks * now / count for guest, count in enumerate(done)]


def alone(tasks: int, cpu_s: float, sleep_s: float) -> Work:
    """One task's CPU time and sleep."""
    return Work(tasks, repairman_cycle_s(tasks, cpu_s, sleep_s), tasks * cpu_s, tasks * sleep_s)


@pytest.mark.parametrize(
    ("works", "weights", "cpus"),
    [
        ([alone(4, 1.0, 9.0), alone(1, 2.0, 0.0)], [100, 100], 1),
        ([alone(4, 1.0, 9.0), alone(1, 2.0, 0.0)], [100, 300], 1),
        ([alone(12, 1.25, 20.0), alone(2, 7.0, 20.0), alone(4, 1.0, 8.0)], [100, 300, 100], 1),
        ([alone(1, 1.0, 1.0), alone(1, 3.0, 4.0), alone(1, 2.0, 0.0), alone(1, 5.0, 1.0)], [100] * 4, 2),
    ],
)
def test_the_model_agrees_with_a_simulation(works: list[Work], weights: list[int], cpus: int) -> None:
    guests = [Guest(vcpus=1, weight=weight) for weight in weights]
    predicted = solve_together(works, guests, cpus)
    simulated = simulated_cycles_s(works, [float(one) for one in weights], cpus, seed=7)
    for work, stretch, cycle_s in zip(works, predicted, simulated, strict=True):
        # Guests are solved one by one, as if what the others want did not depend on what this one does.
        assert stretch == pytest.approx(cycle_s / work.elapsed_s, rel=0.06)


@pytest.mark.parametrize(("guests", "cpus"), [(6, 2), (16, 4)])
def test_guests_of_one_task_are_the_machine_repairman_with_several_cpus(guests: int, cpus: int) -> None:
    # Of sixteen there are more joint states than are looked at one by one.
    work = alone(1, 1.0, 2.0)
    exact = solve_alone(guests, 1.0, 2.0, tuple(map(float, range(cpus + 1)))).cycle_s / work.elapsed_s
    assert solve_together([work] * guests, [ONE] * guests, cpus) == pytest.approx([exact] * guests, rel=0.06)


@given(st.data())
def test_nobody_is_faster_than_alone_and_no_more_than_all_cpus_are_used(data: st.DataObject) -> None:
    count, cpus = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    works, guests = [], []
    for _ in range(count):
        tasks, vcpus = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
        cpu_s, sleep_s = data.draw(st.floats(0.01, 1.0)), data.draw(st.just(0.0) | st.floats(0.01, 1.0))
        speeds = tuple(float(one) for one in range(min(tasks, vcpus, cpus) + 1))
        cycle_s = solve_alone(tasks, cpu_s, sleep_s, speeds).cycle_s * data.draw(st.floats(1.0, 1.3))
        works.append(Work(tasks, cycle_s, tasks * cpu_s, tasks * sleep_s))
        quota = data.draw(st.none() | st.floats(10.0, 100.0))
        guests.append(Guest(vcpus=vcpus, weight=data.draw(st.integers(1, 1000)), quota_percent=quota))
    found = solve_together(works, guests, cpus)
    assert all(stretch >= 1.0 - 1e-6 for stretch in found)
    used = sum(one.cpu_s / (one.elapsed_s * stretch) for one, stretch in zip(works, found, strict=True))
    assert used <= cpus * 1.1
