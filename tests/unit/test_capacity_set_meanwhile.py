"""A quota, or other CPUs, that a guest is given while it is watched: what they take is never its host's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters.quota import Throttled
from stealtime.capacity.sample import GuestSample, Sample
from stealtime.capacity.use import between
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.vocabulary.readings import Absent

SECOND_NS = 1_000_000_000
VCPU = 101


class Watched:
    """A guest of one virtual CPU that is busy for half of each second and, once it is held back, waits for the rest."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.root = FabricatedProc(folder / "proc"), folder / "cgroup"
        self.group = self.root / "guest"
        self.group.mkdir(parents=True)
        self.at_ns, self.vcpu = 0, FabricatedThread("CPU 0/KVM")
        argv = ["qemu-system-x86_64", "-name", "db", "-accel", "kvm"]
        self.proc.add_process(100, argv, [FabricatedThread("qemu"), self.vcpu])
        (self.proc.root / f"100/task/{VCPU}/cgroup").write_text("0::/guest\n")
        self.set_quota("max 100000")
        self.collector = Collector(self.proc.root, hierarchy=CpuHierarchy(2, self.root), now_ns=lambda: self.at_ns)

    def set_quota(self, limit: str) -> None:
        (self.group / "cpu.max").write_text(limit + "\n")

    def second(self, waits: bool) -> Sample:
        self.at_ns += SECOND_NS
        self.vcpu.run_ns += SECOND_NS // 2
        self.vcpu.wait_ns += SECOND_NS // 2 if waits else 0
        self.vcpu.dispatches += 1
        (self.group / "cpu.stat").write_text(
            f"nr_periods 1\nnr_throttled 1\nthrottled_usec {self.vcpu.wait_ns // 1000}\n"
        )
        thread = self.proc.root / f"100/task/{VCPU}/schedstat"
        thread.write_text(f"{self.vcpu.run_ns} {self.vcpu.wait_ns} {self.vcpu.dispatches}\n")
        return self.collector.sample()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    one = Watched(tmp_path)
    with one.collector:
        yield one


def guest_of(sample: Sample) -> GuestSample:
    (one,) = sample.guests.values()
    return one


def test_a_quota_is_found_when_the_guest_begins_to_wait(watched: Watched) -> None:
    calm = [watched.second(waits=False) for _ in range(8)]
    assert guest_of(calm[-1]).throttled is None
    watched.set_quota("50000 100000")
    held = [watched.second(waits=True) for _ in range(2)]
    assert isinstance(guest_of(held[0]).throttled, Throttled)
    # How much of the first second's wait was the quota's nobody knows; of the second's it is all.
    (first,) = between(calm[-1], held[0]).guests.values()
    assert isinstance(first.throttled_percent, Absent)
    (second,) = between(*held).guests.values()
    assert (second.throttled_percent, second.quota_cpus) == (50.0, 0.5)


def test_a_quota_that_is_set_for_one_that_waits_already_is_found_some_samples_later(watched: Watched) -> None:
    for _ in range(8):
        last = watched.second(waits=True)
    assert guest_of(last).throttled is None
    watched.set_quota("50000 100000")
    found = [guest_of(watched.second(waits=True)).throttled for _ in range(5)]
    assert isinstance(found[-1], Throttled)


def test_one_that_does_not_wait_is_looked_at_seldom(watched: Watched) -> None:
    for _ in range(8):
        watched.second(waits=False)
    watched.set_quota("50000 100000")
    assert guest_of(watched.second(waits=False)).throttled is None


def test_other_cpus_are_found_when_the_guest_begins_to_wait_on_them(watched: Watched) -> None:
    calm = [watched.second(waits=False) for _ in range(8)]
    assert guest_of(calm[-1]).allowed_cpus == frozenset({0, 1})
    (watched.proc.root / f"100/task/{VCPU}/status").write_text("Name:\tx\nCpus_allowed_list:\t1\n")
    assert guest_of(watched.second(waits=True)).allowed_cpus == frozenset({1})
