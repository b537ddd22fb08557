"""Guests are found by what they are: who holds virtual CPUs of KVM, and who only asks or helps."""

import itertools
import mmap
import shlex
from pathlib import Path

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters.files import OpenFiles
from stealtime.capacity.counters.parsers import ThreadCounts
from stealtime.capacity.guests.command_line import read_guest
from stealtime.capacity.guests.kvm_holders import count_vcpus
from stealtime.capacity.guests.starvation import Starvation
from stealtime.capacity.sample import GuestSample
from stealtime.capacity.use import between
from stealtime.vocabulary.readings import Absent

VCPU_0 = "anon_inode:kvm-vcpu:0"


def hold(proc: FabricatedProc, pid: int, *shown: str) -> None:
    """Give a process descriptors."""
    folder = proc.root / str(pid) / "fd"
    folder.mkdir(exist_ok=True)
    for target in shown:
        (folder / str(len(list(folder.iterdir())))).symlink_to(target)


def found(collector: Collector) -> dict[str, GuestSample]:
    return {one.guest.name: one for one in collector.sample().guests.values()}


@pytest.mark.parametrize(
    ("argv", "name", "kind", "threads"),
    [
        ("/usr/bin/firecracker --id web --api-sock /run/fc.sock", "web", "kvm", ["fc_api", "fc_vcpu 0", "fc_vcpu 1"]),
        ("cloud-hypervisor --api-socket=/run/ch", "cloud-hypervisor-100", "kvm", ["vmm", "vcpu0", "vcpu1"]),
        ("crosvm run --name shop", "shop", "kvm", ["crosvm", "crosvm_vcpu0", "crosvm_vcpu1"]),
        ("lkvm run --name=small", "small", "kvm", ["kvm-ipc", "kvm-vcpu-0", "kvm-vcpu-1"]),
        ("/opt/vendor/appliance -name guest=db -accel kvm", "db", "qemu", ["x", "CPU 0/KVM", "CPU 1/KVM"]),
        ("ld-linux.so --library-path /l /q/qemu -name db -m 1G", "db", "kvm", ["x", "CPU 0/KVM", "CPU 1/KVM"]),
    ],
)  # fmt: skip
def test_a_process_that_holds_virtual_cpus_is_a_guest_whatever_its_name(
    tmp_path: Path, argv: str, name: str, kind: str, threads: list[str]
) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, shlex.split(argv), [FabricatedThread(one) for one in threads])
    hold(proc, 100, "/dev/kvm", "anon_inode:kvm-vm", VCPU_0, "anon_inode:kvm-vcpu:1")
    with Collector(proc.root) as collector:
        guests = found(collector)
    assert list(guests) == [name]
    assert guests[name].guest.kind == kind
    assert {thread.tid: thread.vcpu for thread in guests[name].threads} == {100: None, 101: 0, 102: 1}
    assert guests[name].unreadable is None


def test_a_program_that_makes_its_guest_long_after_it_began_is_found(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["firecracker", "--id", "late"], [FabricatedThread("firecracker")])
    for pid in range(200, 290):
        proc.add_process(pid, ["bash"])
    with Collector(proc.root) as collector:
        for _ in range(20):
            assert found(collector) == {}
        proc.write_thread(100, 101, FabricatedThread("fc_vcpu 0"))
        hold(proc, 100, VCPU_0)
        seen = [len(found(collector)) for _ in range(120)]
    assert seen[-1] == 1


def test_descriptors_of_one_virtual_cpu_count_once(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["x"])
    assert count_vcpus(str(proc.root), 100) == 0
    hold(proc, 100, VCPU_0, VCPU_0, "anon_inode:kvm-vcpu:1", "anon_inode:kvm-vcpu-stats:1", "socket:[1]")
    assert count_vcpus(str(proc.root), 100) == 2


@pytest.mark.parametrize(
    "argv",
    [
        "qemu-system-x86_64 -S -no-user-config -nodefaults -nographic -machine none,accel=kvm:tcg -qmp unix:/q",
        "qemu-system-x86_64 -version",
        "qemu-system-x86_64 -machine help",
        "qemu-system-x86_64 -M none",
        "qemu-system-x86_64 -device virtio-net-pci,help",
        "/usr/bin/kvm --help",
    ],
)
def test_a_qemu_that_is_only_asked_what_it_can_do_is_no_guest(argv: str) -> None:
    assert read_guest(7, 0, shlex.split(argv)) is None


@pytest.mark.parametrize(
    "argv",
    [
        "/usr/lib/xen/bin/qemu-system-i386 -xen-domid 5 -name web -machine xenfv -m 1024",
        "qemu-system-x86_64 -xen-attach -name dom0 -M xenpv",
        "qemu-system-x86_64 -name pv -machine pc,accel=xen",
    ],
)
def test_a_device_model_of_xen_says_where_its_virtual_cpus_are(tmp_path: Path, argv: str) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, shlex.split(argv), [FabricatedThread("qemu-system-i38"), FabricatedThread("worker")])
    with Collector(proc.root) as collector:
        (one,) = found(collector).values()
    assert one.unreadable is not None
    assert "run in Xen" in one.unreadable.absent


def test_threads_that_the_kernel_runs_for_a_guest_are_counted_with_its_io(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["qemu-system-x86_64", "-name", "a"], [FabricatedThread("q"), FabricatedThread("CPU 0/KVM")])
    proc.add_process(300, [""], [FabricatedThread("vhost-100")])
    (proc.root / "300/comm").write_text("vhost-100\n")
    clock = itertools.count(0, 1_000_000_000)
    with Collector(proc.root, now_ns=lambda: next(clock)) as collector:
        before = collector.sample()
        proc.write_thread(300, 300, FabricatedThread("vhost-100", run_ns=1_000_000 + 250_000_000, wait_ns=50_000_000))
        (use,) = between(before, collector.sample()).guests.values()
    assert not isinstance(use.io, Absent)
    assert (use.io.run_percent, use.io.wait_percent) == (25.0, 5.0)


def test_the_host_has_all_of_1024_cpus(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc", cpus=1024)
    for row in proc.ticks.values():
        row[:4] = [10**9, 10**9, 10**9, 10**10]
    proc.write_host()
    assert (proc.root / "stat").stat().st_size > 65536
    with Collector(proc.root) as collector:
        before = collector.sample()
        proc.pass_time([50.0] * 1024)
        use = between(before, collector.sample())
    assert not isinstance(use.cpus, Absent)
    assert len(use.cpus) == 1024
    assert use.cpus[1023].busy_percent == pytest.approx(50)


def test_a_file_of_the_kernel_is_read_whole_although_it_comes_in_pieces() -> None:
    # The kernel gives a page or so of this one at a time; each mapping is a line.
    mappings = [
        mmap.mmap(-1, 4096, prot=mmap.PROT_READ if number % 2 else mmap.PROT_READ | mmap.PROT_WRITE)
        for number in range(2000)
    ]
    file = OpenFiles().open("/proc/self/maps")
    seen = file.read()
    again = Path("/proc/self/maps").read_bytes()
    file.close()
    assert len(mappings) == 2000
    assert len(seen) > 1 << 16
    assert abs(seen.count(b"\n") - again.count(b"\n")) < 20
    assert seen.splitlines()[-1] == again.splitlines()[-1]


def test_who_is_runnable_and_does_not_move_starves() -> None:
    states = {1: b"R", 2: b"S"}
    starvation = Starvation(states.__getitem__)
    still = {1: ThreadCounts(5, 5, 5), 2: ThreadCounts(5, 5, 5)}
    seen = [starvation.look(dict(still)) for _ in range(8)]
    # It is asked every fifth time, and has waited from then on.
    assert [set(one) for one in seen] == [set(), set(), set(), set(), set(), set(), {1}, {1}]
    moved = {**still, 1: ThreadCounts(6, 9, 6)}
    assert starvation.look(moved) == frozenset()
    assert starvation.look(moved) == frozenset()


def test_a_guest_that_never_runs_is_seen_to_wait(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["qemu-system-x86_64", "-name", "a"], [FabricatedThread("q"), FabricatedThread("CPU 0/KVM")])
    clock = itertools.count(0, 1_000_000_000)
    with Collector(proc.root, now_ns=lambda: next(clock)) as collector:
        samples = [collector.sample() for _ in range(9)]
    uses = [between(first, last) for first, last in itertools.pairwise(samples)]
    (waits,) = [[one.vcpus[0].wait_percent for use in uses for one in use.guests.values()]]
    assert waits[-1] == 100.0
