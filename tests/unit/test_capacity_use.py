"""What was used between two samples: shares add up, rates are never negative, resets are absent."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.capacity.counters.parsers import ThreadCounts
from stealtime.capacity.counters.quota import Throttled
from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.sample import GuestSample, GuestView, ReadTwice, Sample, ThreadsRead
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import CpuUse, GuestUse, Use, between
from stealtime.vocabulary.readings import Absent

SECOND_NS = 1_000_000_000
GUEST = Guest("a", "qemu", 100, 1)
THREADS = (GuestThread(100, "emulator"), GuestThread(101, "vcpu", 0), GuestThread(102, "vcpu", 1))
GROUPS: dict[int | str, tuple[int, ...]] = {0: (101,), 1: (102,), "emulator": (100,)}
STILL = ThreadCounts(5, 5, 5)


def guest_sample(
    vcpu: ThreadCounts = STILL,
    *,
    counts: dict[int, ThreadCounts] | None = None,
    throttled: Throttled | None = None,
    view: GuestView | None = None,
) -> GuestSample:
    known = {101: vcpu, 102: STILL} if counts is None else counts
    return GuestSample(GUEST, THREADS, known, GROUPS, throttled=throttled, view=view)


def sample(
    at_s: float,
    row: Sequence[int] = (0,) * 10,
    guest: GuestSample | None = None,
    pressure_us: dict[str, int] | None = None,
) -> Sample:
    return Sample(
        at_ns=int(at_s * SECOND_NS),
        cpus={0: tuple(row)},
        pressure_us={"cpu": {"some": 0} if pressure_us is None else pressure_us},
        memory_bytes=(8 << 30, 2 << 30),
        guests={} if guest is None else {guest.guest.key: guest},
    )


def cpu(before: Sequence[int], after: Sequence[int]) -> CpuUse:
    use = between(sample(0, before), sample(1, after))
    assert not isinstance(use.cpus, Absent)
    return use.cpus[0]


def of_guest(before: GuestSample, after: GuestSample, elapsed_s: float = 1.0) -> GuestUse:
    return between(sample(0, guest=before), sample(elapsed_s, guest=after)).guests[GUEST.key]


def test_a_cpus_shares_by_hand() -> None:
    # user with guest, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
    use = cpu([0] * 10, [30, 5, 10, 20, 5, 2, 3, 25, 20, 1])
    assert use == CpuUse(busy_percent=50.0, guest_percent=21.0, interrupts_percent=5.0, steal_percent=25.0)


@given(st.lists(st.integers(0, 10**6), min_size=8, max_size=8).filter(any))
def test_busy_idle_and_steal_are_the_whole(gained: list[int]) -> None:
    use = cpu([7] * 10, [7 + one for one in (*gained, 0, 0)])
    total = sum(gained)
    idle_percent = 100 * (gained[3] + gained[4]) / total
    assert not isinstance(use.busy_percent, Absent)
    assert not isinstance(use.steal_percent, Absent)
    assert use.busy_percent + use.steal_percent + idle_percent == pytest.approx(100)


def test_iowait_may_go_back_a_little_and_nothing_else() -> None:
    assert cpu([0, 0, 0, 0, 9, 0, 0, 0, 0, 0], [50, 0, 0, 55, 4, 0, 0, 0, 0, 0]).busy_percent == 50.0
    for column in (0, 1, 2, 5, 6):
        before, after = [9] * 10, [100] * 10
        after[column] = 8
        assert isinstance(cpu(before, after).busy_percent, Absent)


def test_stolen_time_that_runs_backwards_spoils_nothing_else() -> None:
    use = cpu([0, 0, 0, 0, 0, 0, 0, 40, 0, 0], [50, 0, 0, 50, 0, 0, 0, 10, 0, 0])
    assert use.busy_percent == 50.0
    assert isinstance(use.steal_percent, Absent)
    assert "steal went backwards" in use.steal_percent.absent


def test_what_an_old_kernel_does_not_count_is_absent() -> None:
    use = cpu([0] * 7, [50, 0, 0, 50, 0, 0, 0])
    assert use.busy_percent == 50.0
    assert isinstance(use.steal_percent, Absent)
    assert isinstance(use.guest_percent, Absent)


def test_a_cpu_that_came_online_meanwhile_is_left_out() -> None:
    after = sample(1, [10] * 10)
    assert between(Sample(0, {}, {}, Absent(absent="no"), {}), after).cpus == {}


def test_a_threads_run_wait_and_wait_per_dispatch_by_hand() -> None:
    use = of_guest(guest_sample(), guest_sample(ThreadCounts(5 + 300_000_000, 5 + 100_000_000, 5 + 50)))
    assert use.vcpus[0].run_percent == 30.0
    assert use.vcpus[0].wait_percent == 10.0
    assert use.vcpus[0].dispatches_per_s == 50.0
    assert use.vcpus[0].wait_per_dispatch_ns == 2_000_000.0
    # The other one slept: there is no wait per dispatch where there was no dispatch.
    assert isinstance(use.vcpus[1].wait_per_dispatch_ns, Absent)


@given(st.tuples(*[st.integers(0, 10**12)] * 3), st.tuples(*[st.integers(0, 10**12)] * 3))
def test_rates_are_never_negative(first: tuple[int, int, int], last: tuple[int, int, int]) -> None:
    use = of_guest(guest_sample(ThreadCounts(*first)), guest_sample(ThreadCounts(*last)))
    if any(after < before for before, after in zip(first, last, strict=True)):
        assert use.unreadable is not None
        assert "went backwards" in use.unreadable.absent
    else:
        assert use.unreadable is None
        assert min(use.vcpus[0].run_percent, use.vcpus[0].wait_percent, use.vcpus[0].dispatches_per_s) >= 0


def test_a_thread_that_began_meanwhile_counts_from_zero_and_one_that_ended_not_at_all() -> None:
    before = guest_sample(counts={100: STILL, 102: STILL})
    after = guest_sample(counts={100: STILL, 101: ThreadCounts(200_000_000, 0, 1)})
    use = of_guest(before, after._replace(began=frozenset({101})))
    assert use.vcpus[0].run_percent == 20.0
    assert 1 not in use.vcpus


def test_the_history_of_a_virtual_cpu_that_is_found_late_is_not_one_seconds_use() -> None:
    # A thread without a name is known for a virtual CPU only once it has run a guest: here after 90 s of it.
    before = guest_sample(counts={102: STILL})
    after = guest_sample(counts={101: ThreadCounts(90 * SECOND_NS, 0, 9), 102: STILL})
    assert 0 not in of_guest(before, after).vcpus
    later = guest_sample(counts={101: ThreadCounts(90 * SECOND_NS + 300_000_000, 0, 19), 102: STILL})
    assert of_guest(after, later).vcpus[0].run_percent == 30.0


def test_a_wait_that_began_long_ago_is_not_one_seconds_wait() -> None:
    # The kernel adds a wait when it ends.
    use = of_guest(guest_sample(), guest_sample(ThreadCounts(5 + 400_000_000, 5 + 30 * SECOND_NS, 6)))
    assert (use.vcpus[0].run_percent, use.vcpus[0].wait_percent) == (40.0, 60.0)
    assert use.vcpus[0].wait_per_dispatch_ns == 30e9


def test_a_virtual_cpu_that_wants_a_cpu_and_gets_none_waits_all_the_time() -> None:
    starved = guest_sample()._replace(starving=frozenset({101}))
    use = of_guest(guest_sample(), starved)
    assert use.vcpus[0] == ThreadsUse(0.0, 100.0, 0.0, float(SECOND_NS))
    assert use.vcpus[1].wait_percent == 0.0


def test_other_threads_are_of_their_own_last_two_readings() -> None:
    first = ThreadsRead(0, {100: ThreadCounts(5, 5, 5)})
    last = ThreadsRead(5 * SECOND_NS, {100: ThreadCounts(5 + SECOND_NS, 5, 6)})
    use = of_guest(guest_sample(), guest_sample()._replace(others=ReadTwice(first, last)))
    assert isinstance(use.emulator, ThreadsUse)
    assert use.emulator.run_percent == 20.0
    assert isinstance(of_guest(guest_sample(), guest_sample()).emulator, Absent)
    # A wait of a minute that ended now is no more than the time in which it did not run.
    ended = ThreadsRead(5 * SECOND_NS, {100: ThreadCounts(5 + SECOND_NS, 5 + 60 * SECOND_NS, 6)})
    use = of_guest(guest_sample(), guest_sample()._replace(others=ReadTwice(first, ended)))
    assert isinstance(use.emulator, ThreadsUse)
    assert use.emulator.wait_percent == 80.0
    backwards = of_guest(guest_sample(), guest_sample()._replace(others=ReadTwice(last, first)))
    assert isinstance(backwards.emulator, Absent)


def test_pressure_by_hand_and_backwards() -> None:
    def pressure(before_us: int, after_us: int) -> object:
        use = between(sample(0, pressure_us={"some": before_us}), sample(2, pressure_us={"some": after_us}))
        return use.pressure_percent["cpu"]

    assert pressure(1_000_000, 1_500_000) == 25.0
    assert isinstance(pressure(1, 0), Absent)


def test_what_a_quota_takes_is_no_wait_for_the_host() -> None:
    ran = ThreadCounts(5 + 500_000_000, 5 + 500_000_000, 5 + 10)
    use = of_guest(guest_sample(throttled=held(0)), guest_sample(ran, throttled=held(400_000_000)))
    # Two virtual CPUs: 0.4 s held back together is 20 % of each.
    assert (use.throttled_percent, use.quota_cpus) == (20.0, 0.5)
    assert net_wait_percent(use, use.vcpus[0]) == pytest.approx(10.0)


GROUP, OTHER = Path("/sys/fs/cgroup/a"), Path("/sys/fs/cgroup/a/vcpu0")


def held(*each_ns: int) -> Throttled:
    return Throttled(dict(zip((GROUP, OTHER), each_ns, strict=False)), 0.5)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (held(900), held(100), "went backwards, by 800 ns"),
        # The sum of all goes up, and one of them was made anew.
        (held(900, 0), held(100, 5000), "went backwards, by 800 ns"),
        # What a group counted before it was ours is nothing of this second.
        (held(0), held(0, 90 * SECOND_NS), "its quotas changed meanwhile"),
    ],
)
def test_a_quota_whose_counters_began_anew_is_absent(before: Throttled, after: Throttled, why: str) -> None:
    ran = ThreadCounts(5, 5 + 500_000_000, 5 + 10)
    use = of_guest(guest_sample(throttled=before), guest_sample(ran, throttled=after))
    assert isinstance(use.throttled_percent, Absent)
    assert why in use.throttled_percent.absent
    # Nobody knows how much of the wait was the quota's: it is not said to be the host's.
    assert net_wait_percent(use, use.vcpus[0]) == use.throttled_percent


def test_of_quotas_in_each_other_the_one_that_held_longest_counts() -> None:
    use = of_guest(guest_sample(throttled=held(0, 0)), guest_sample(throttled=held(100_000_000, 300_000_000)))
    assert use.throttled_percent == 15.0


def test_a_quota_that_was_set_meanwhile_is_not_judged_yet() -> None:
    use = of_guest(guest_sample(), guest_sample(throttled=held(9)))
    assert isinstance(use.throttled_percent, Absent)


def test_a_guests_queue_leaves_out_who_runs_and_who_asks() -> None:
    row = (50, 0, 0, 50, 0, 0, 0, 0, 0, 0)
    quiet = GuestView(1, 2, {0: (0,) * 10, 1: (0,) * 10}, 0)
    use = of_guest(guest_sample(view=quiet), guest_sample(view=GuestView(9, 2, {0: row, 1: row}, 250_000)))
    assert use.view is not None
    assert not isinstance(use.view, Absent)
    assert (use.view.queue, use.view.pressure_percent) == (6.0, 25.0)
    assert isinstance(use.view.steal_percent, Absent)
    stolen = (50, 0, 0, 25, 0, 0, 0, 25, 0, 0)
    use = of_guest(guest_sample(view=quiet), guest_sample(view=GuestView(3, 2, {0: stolen, 1: row}, 0)))
    assert use.view is not None
    assert not isinstance(use.view, Absent)
    assert use.view.steal_percent == 12.5


def test_samples_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="before the first"):
        between(sample(1), sample(0))


def test_guests_that_are_there_once_only_have_no_use() -> None:
    use: Use = between(sample(0), sample(1, guest=guest_sample()))
    assert use.guests == {}
