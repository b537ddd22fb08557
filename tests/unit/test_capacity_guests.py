"""Which processes are guests, and which of their threads are virtual CPUs."""

import itertools
import shlex
import shutil
from pathlib import Path

import pytest
from fabricated_guests import FabricatedProc, FabricatedThread

from stealtime.capacity.collector import Collector
from stealtime.capacity.guest import GuestThread
from stealtime.capacity.guests.command_line import read_guest
from stealtime.capacity.guests.own_kernel import read_view
from stealtime.capacity.guests.roles import roles_by_kvm, roles_by_name
from stealtime.capacity.guests.view import read_ways, ssh_command
from stealtime.capacity.sample import GuestSample
from stealtime.capacity.use import between
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent

LIBVIRT = shlex.split(
    "/usr/bin/qemu-system-x86_64 -name guest=web,,1,debug-threads=on -S -machine pc-q35-7.2,usb=off,memory-backend=ram "
    "-accel kvm -m size=4194304k -smp 2,sockets=2,cores=1,threads=1 -no-user-config -nodefaults "
    "-chardev socket,id=charmonitor,fd=33,server=on,wait=off -mon chardev=charmonitor,id=monitor,mode=control"
)
PROXMOX = shlex.split(
    "/usr/bin/kvm -id 100 -name db,debug-threads=on -no-shutdown "
    "-chardev socket,id=qmp,path=/var/run/qemu-server/100.qmp,server=on,wait=off -mon chardev=qmp,mode=control -m 2048"
)
UML = shlex.split("/usr/bin/linux.uml mem=256M initrd=/i uml_dir=/tmp/x umid=guest con=null")


def test_guests_are_read_from_the_command_lines_of_their_managers() -> None:
    libvirt, proxmox, uml = (read_guest(7, 0, argv) for argv in (LIBVIRT, PROXMOX, UML))
    assert libvirt is not None
    assert (libvirt.name, libvirt.kind, libvirt.memory_bytes, libvirt.monitor) == ("web,1", "qemu", 4 << 30, None)
    assert proxmox is not None
    assert (proxmox.name, proxmox.memory_bytes) == ("db", 2 << 30)
    assert proxmox.monitor == Path("/var/run/qemu-server/100.qmp")
    assert uml is not None
    assert (uml.name, uml.kind, uml.memory_bytes) == ("guest", "uml", 256 << 20)
    assert uml.console == Path("/tmp/x/guest/mconsole")


@pytest.mark.parametrize(
    ("argv", "name", "monitor"),
    [
        (["qemu-system-aarch64", "-qmp", "unix:q.sock,server=on,wait=off"], "qemu-7", Path("/home/q.sock")),
        (["/opt/qemu-kvm", "--name", "plain"], "plain", None),
        (["qemu-system-x86_64", "-name"], "qemu-7", None),
        (["qemu-system-x86_64", "-qmp", "stdio"], "qemu-7", None),
    ],
)
def test_command_lines_written_by_hand(argv: list[str], name: str, monitor: Path | None) -> None:
    guest = read_guest(7, 0, argv, Path("/home"))
    assert guest is not None
    assert (guest.name, guest.monitor) == (name, monitor)


@pytest.mark.parametrize(
    "argv",
    [[], [""], ["bash"], ["grep", "qemu-system-x86_64"], ["qemu-img", "create"], ["qemu-system-x86_64", "--version"],
     ["stealtime-agent", "guard", "--", "qemu-system-x86_64", "-name", "x"], ["/boot/linux"], ["qemu-storage-daemon"]],
)  # fmt: skip
def test_other_processes_are_no_guests(argv: list[str]) -> None:
    assert read_guest(7, 0, argv) is None


def test_roles_by_the_names_that_qemu_gives() -> None:
    names = {
        1: "qemu-system-x86",
        2: "call_rcu",
        3: "CPU 0/KVM",
        4: "CPU 1/KVM",
        5: "IO io1",
        6: "worker",
        7: "vhost-1",
    }
    roles = {thread.tid: (thread.role, thread.vcpu) for thread in roles_by_name(names)}
    assert roles == {
        1: ("emulator", None), 2: ("emulator", None), 3: ("vcpu", 0), 4: ("vcpu", 1),
        5: ("io", None), 6: ("io", None), 7: ("io", None),
    }  # fmt: skip
    assert GuestThread(9, "vcpu", 0) in roles_by_name({1: "qemu-system-x86", 9: "ALL CPUs/TCG"})


def test_without_names_only_kvms_own_time_tells_a_virtual_cpu() -> None:
    assert [thread.vcpu for thread in roles_by_kvm([10, 12, 11], [12, 11])] == [None, 1, 0]


def sampled(collector: Collector) -> GuestSample:
    (sample,) = collector.sample().guests.values()
    return sample


def vcpu(**counts: int) -> FabricatedThread:
    return FabricatedThread("CPU 0/KVM", **counts)


def test_guests_come_and_go_while_they_are_watched(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    with Collector(proc.root) as collector:
        assert collector.sample().guests == {}
        proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
        assert sampled(collector).guest.name == "web,1"
        proc.add_process(200, PROXMOX, [FabricatedThread("qemu"), vcpu()])
        assert {one.guest.name for one in collector.sample().guests.values()} == {"web,1", "db"}
        (tmp_path / "proc/100").rename(tmp_path / "gone")
        assert sampled(collector).guest.name == "db"


def test_a_virtual_cpu_that_comes_later_is_found_when_the_other_threads_are_read(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
    with Collector(proc.root) as collector:
        for _ in range(8):
            assert {thread.vcpu for thread in sampled(collector).threads} == {None, 0}
        proc.write_thread(100, 102, FabricatedThread("CPU 1/KVM"))
        found = [len(sampled(collector).threads) for _ in range(5)]
    assert found[-1] == 3, found


def test_a_process_that_becomes_qemu_is_found(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["stealtime-agent", "guard"])
    with Collector(proc.root) as collector:
        assert collector.sample().guests == {}
        proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
        assert sampled(collector).guest.pid == 100


def test_a_guest_that_is_killed_while_it_is_read_is_left_out(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
    with Collector(proc.root) as collector:
        assert len(collector.sample().guests) == 1
        shutil.rmtree(tmp_path / "proc/100/task")
        assert collector.sample().guests == {}


def test_processes_are_listed_when_an_id_was_given_away_and_now_and_then(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    load = tmp_path / "proc/loadavg"
    load.write_text("0.10 0.20 0.30 1/99 100\n")
    proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])

    def seen(samples: int) -> list[int]:
        return [len(collector.sample().guests) for _ in range(samples)]

    with Collector(proc.root) as collector:
        assert seen(6) == [1] * 6
        proc.add_process(200, UML)
        load.write_text("0.10 0.20 0.30 1/99 201\n")
        assert seen(6) == [2] * 6
        # Another PID namespace's ids are not seen in there.
        proc.add_process(300, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
        found = seen(10)
        assert (found[0], found[-1]) == (2, 3)
        shutil.rmtree(tmp_path / "proc/100")
        assert seen(1) == [2]
        load.unlink()
        proc.add_process(400, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
    with Collector(proc.root) as collector:
        assert seen(1) == [3]
        proc.add_process(500, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
        assert seen(1) == [4]


def test_two_guests_of_one_name_are_told_apart(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    for pid in (100, 200):
        proc.add_process(pid, UML)
    with Collector(proc.root) as collector:
        names = {one.guest.name for one in collector.sample().guests.values()}
    assert names in ({"guest", "guest-200"}, {"guest", "guest-100"})


def test_the_processes_of_user_mode_linux_are_one_virtual_cpu(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, UML, [FabricatedThread("linux.uml")])
    proc.add_process(300, UML, [FabricatedThread("linux.uml")], parent=100)
    (tmp_path / "proc/100/task/100/children").write_text("300 \n")
    clock = iter([0, 1_000_000_000])
    with Collector(proc.root, now_ns=lambda: next(clock)) as collector:
        before = collector.sample()
        proc.write_thread(100, 100, FabricatedThread("linux.uml", run_ns=1_000_000 + 300_000_000, wait_ns=600_000_000))
        proc.write_thread(300, 300, FabricatedThread("linux.uml", run_ns=1_000_000 + 200_000_000, wait_ns=300_000_000))
        proc.pass_time([50, 50])
        (use,) = between(before, collector.sample()).guests.values()
    assert list(use.vcpus) == [0]
    # Both waited at once for 0.4 s: one virtual CPU cannot wait longer than the time it did not run.
    assert (use.vcpus[0].run_percent, use.vcpus[0].wait_percent) == (50.0, 50.0)


def test_threads_that_are_no_virtual_cpu_are_read_at_once_twice_and_then_now_and_then(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, LIBVIRT, [FabricatedThread("qemu"), vcpu()])
    clock = itertools.count(0, 1_000_000_000)
    seconds: list[float | None] = []
    with Collector(proc.root, now_ns=lambda: next(clock)) as collector:
        for turn in range(12):
            proc.write_thread(100, 100, FabricatedThread("qemu", run_ns=1_000_000 + turn * 100_000_000))
            others = sampled(collector).others
            seconds.append(None if others is None else others.last.counts[100].run_ns / 1e9 - 0.001)
    assert seconds == [None, pytest.approx(0.1), *[pytest.approx(0.2)] * 5, *[pytest.approx(0.7)] * 5]


def test_a_kernel_that_does_not_count_is_no_guest_that_never_waits(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, LIBVIRT, [FabricatedThread("qemu", 0, 0, 0), FabricatedThread("CPU 0/KVM", 0, 0, 0)])
    with Collector(proc.root) as collector:
        unreadable = sampled(collector).unreadable
    assert unreadable is not None
    assert "0 0 0" in unreadable.absent
    assert "kernel.task_delayacct" in unreadable.absent


def test_a_qemu_without_names_of_threads_says_how_to_name_them(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    proc.add_process(100, ["qemu-system-x86_64", "-name", "x"], [FabricatedThread("qemu"), FabricatedThread("qemu")])
    with Collector(proc.root) as collector:
        unreadable = sampled(collector).unreadable
    assert unreadable is not None
    assert "debug-threads=on" in unreadable.absent


def test_a_qemu_without_names_under_kvm_is_read_all_the_same(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    threads = [FabricatedThread("qemu"), FabricatedThread("qemu", guest_ticks=99), FabricatedThread("qemu")]
    proc.add_process(100, ["qemu-system-x86_64", "-name", "x"], threads)
    # One that the guest has not started waits in KVM_RUN.
    (tmp_path / "proc/100/task/102/syscall").write_text("16 0xd 0xae80 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n")
    with Collector(proc.root) as collector:
        sample = sampled(collector)
    assert sample.unreadable is None
    assert {thread.tid: thread.vcpu for thread in sample.threads} == {100: None, 101: 0, 102: 1}


def test_missing_files_of_the_host_are_absent_with_the_reason(tmp_path: Path) -> None:
    proc = FabricatedProc(tmp_path / "proc")
    for name in ("stat", "meminfo", "pressure/cpu"):
        (tmp_path / "proc" / name).unlink()
    with Collector(proc.root) as collector:
        sample = collector.sample()
    assert isinstance(sample.cpus, Absent)
    assert isinstance(sample.memory_bytes, Absent)
    pressure = sample.pressure_us["cpu"]
    assert isinstance(pressure, Absent)
    assert "psi=1" in pressure.absent


def test_a_guests_own_view() -> None:
    stat = b"cpu  1 0 0 9\ncpu0 1 0 0 9 0 0 0 5 0 0\nintr 1\nprocs_running 8\n"
    view = read_view(stat + b"some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n")
    assert (view.running, view.vcpus, view.pressure_us) == (8, 1, 77)
    assert isinstance(read_view(stat).pressure_us, Absent)
    memory = b"MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  250 kB\n"
    told = read_view(stat + b"some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n" + memory)
    assert (told.pressure_us, told.memory_available_percent) == (77, 25.0)
    assert read_view(stat + b"nr_free_pages 1\npswpin 9\n" + memory).swapped_in_pages == 9
    assert isinstance(read_view(stat).memory_available_percent, Absent)
    assert isinstance(read_view(stat + memory.replace(b"250", b"2500")).memory_available_percent, Absent)
    with pytest.raises(ValueError, match=r"no /proc/stat"):
        read_view(b"permission denied")


def test_ways_into_guests() -> None:
    assert read_ways(["own", "web=ssh:root@web"]) == {"web": "ssh:root@web"}
    for word in ("web", "web=telnet:x", "web=ssh:", "=ssh:x"):
        with pytest.raises(UsageError, match="how to reach"):
            read_ways([word])
    with pytest.raises(UsageError, match="names no ssh host"):
        read_ways(["web=ssh:web:70000"])


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("ssh:web", ["--", "web"]),
        ("ssh:root@web:2222", ["-p", "2222", "--", "root@web"]),
        ("ssh:[::1]:22", ["-p", "22", "--", "::1"]),
    ],
)
def test_the_command_of_a_way_over_ssh(way: str, words: list[str]) -> None:
    command = ssh_command(way)
    assert command[0] == "ssh"
    assert command[-len(words) :] == words
