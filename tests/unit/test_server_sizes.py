"""How much a server knows, how large it is and how its host is weighed: what is planned, counted and said of that."""

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from telephony_cells import GUEST, MS, cell_of, failover, registrations

from stealtime.campaigns.estimate import History, estimate
from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.hosts.checkpoints import Checkpoints, checkpoints_of
from stealtime.hosts.host import CpuTimes
from stealtime.hosts.host_side import HostSide
from stealtime.hosts.members_here import HostProcess, cpu_times
from stealtime.hosts.process_times import vcpu_threads
from stealtime.lab.platforms.cgroup import CpuGroup, CpuHierarchy
from stealtime.lab.platforms.share import Share
from stealtime.protect.epochs import read_epochs
from stealtime.report.catalogue.rows import tables_of
from stealtime.store.model import PlatformRecord
from stealtime.studies.telephony import wording
from stealtime.studies.telephony.appliance.configuration import SHARED_MEMORY_BYTES, ServerConfiguration
from stealtime.studies.telephony.appliance.image import Image, Size
from stealtime.studies.telephony.appliance.root import Root
from stealtime.studies.telephony.lengths import REGISTERED_MAX
from stealtime.studies.telephony.registrations.enrolment import some_of
from stealtime.studies.telephony.study import STUDY
from stealtime.vocabulary.errors import StealtimeError, UsageError

NET = {"mode": "net", "interval_ns": 100 * MS, "transport": "udp", "rate_per_s": 200}
TABLE = 'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "register"\nduration = "1s"\n'


def planned(lines: str) -> set[tuple[str, str]]:
    """Give the platforms and measurements of a campaign of ``register`` with some more lines."""
    records = [PlatformRecord(name=name, usable=True, reason="") for name in ("native", GUEST)]
    boots = plan(read_campaign(TABLE + lines, "f"), records, HostCpus((0, 1))).boots
    return {(boot.platform, cell.cell.measurement) for boot in boots for cell in boot.cells}


def test_cells_of_the_usual_server_keep_their_names() -> None:
    explicit = 'mode = ["off", "net"]\ncpus = [1]\nregistered = [0]\n'
    assert planned(explicit) == planned('mode = ["off", "net"]\n')
    assert not any("cpus" in name or "registered" in name or "weight" in name for _, name in planned(explicit))


def test_every_state_is_measured_of_every_size_and_natively_of_none() -> None:
    found = planned('mode = ["off"]\ncpus = [1, 2]\nregistered = [0, 1000]\nhost_weight = [100, 1000]\n')
    assert {platform for platform, _ in found} == {GUEST}
    assert len(found) == 8
    natively = [name for platform, name in planned('mode = ["off"]\nregistered = [0, 1000]\n') if platform == "native"]
    assert len(natively) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"registered = [{REGISTERED_MAX + 1}]", f"150,001 users do not fit .* at most {REGISTERED_MAX:,}"),
        ("registered = [-1]", "registered"),
        ("cpus = [0]", "cpus"),
        ("cpus = [9]", "cpus"),
        ("host_weight = [0]", "host_weight"),
        ("host_weight = [10001]", "host_weight"),
    ],
)
def test_what_no_server_can_have_is_refused(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_campaign(f"{TABLE}{line}\n", "f")


def test_as_many_users_as_may_be_asked_for_fit_into_a_guest() -> None:
    # 64 MiB were seen to be full at 56,000.
    assert REGISTERED_MAX * (64 << 20) / 56_000 < 0.7 * SHARED_MEMORY_BYTES


def test_a_guest_has_memory_for_its_users_and_workers_and_the_usual_one_what_it_had() -> None:
    image = Image(Path("initramfs"), 384 << 20, Root("both", Path("tree"), "key", {}))
    assert Size().memory_bytes(image) == 384 << 20
    # With 384 MiB the kernel of a guest of two killed Kamailio when it knew 97,000 users, of 1.2 KiB each.
    assert Size(cpus=2, registered=100_000).memory_bytes(image) > (384 << 20) + 1.5 * 100_000 * 1_200
    assert Size(registered=100_000).memory_bytes(image) > Size(registered=10_000).memory_bytes(image)


def test_the_time_of_registering_them_is_planned_once() -> None:
    def overhead_s(registered: int, rates: str) -> float:
        text = 'name = "x"\nplatforms = ["paravirt"]\nscenarios = ["telephony"]\nrepetitions = 1\n'
        text += '[[probes]]\nprobe = "register"\nduration = "1s"\nmode = ["net"]\n'
        text += f"rate = {rates}\nregistered = [{registered}]\n"
        records = [PlatformRecord(name="qemu-tcg-paravirt", usable=True, reason="")]
        return estimate(plan(read_campaign(text, "f"), records, HostCpus((0, 1))), History()).overhead_s

    with_users_s, with_none_s = overhead_s(100_000, "[100]"), overhead_s(0, "[100]")
    assert with_users_s - with_none_s > 60
    # The second trial finds them there.
    again_s = overhead_s(100_000, "[100, 200]") - with_users_s
    assert again_s == overhead_s(0, "[100, 200]") - with_none_s < 10


def test_those_who_are_asked_for_are_spread_over_all() -> None:
    assert some_of(3) == ["user000000", "user000001", "user000002"]
    asked = some_of(100_000)
    assert (len(set(asked)), asked[0], asked[-1]) == (500, "user000000", "user099800")
    assert some_of(0) == []


def test_a_larger_server_has_more_workers_and_the_usual_one_what_it_had() -> None:
    def lines(cpus: int) -> str:
        files = ServerConfiguration(role="both", address="10.0.0.1", cpus=cpus).files
        return files["kamailio.cfg"] + files["rtpengine.conf"]

    assert "\nchildren=2\ntcp_children=2\n" in lines(1)
    assert "num-threads = 1\n" in lines(1)
    assert "\nchildren=4\ntcp_children=4\n" in lines(2)
    assert "num-threads = 2\n" in lines(2)


def proc_of(folder: Path, names: Mapping[int, str]) -> Path:
    """Make up a /proc of a process 70 with threads of these names."""
    for tid, name in names.items():
        task = folder / f"70/task/{tid}"
        task.mkdir(parents=True)
        (task / "comm").write_text(f"{name}\n")
    return folder


@pytest.mark.parametrize(
    ("names", "vcpus"),
    [
        ({70: "qemu-system-x86", 71: "CPU 0/TCG", 72: "CPU 1/TCG", 73: "worker"}, {71, 72}),
        ({70: "qemu-system-x86", 71: "CPU 0/KVM", 72: "call_rcu"}, {71}),
        ({70: "qemu-system-x86", 71: "ALL CPUs/TCG"}, {71}),
        ({70: "qemu-system-x86"}, set()),
        ({}, set()),
    ],
)
def test_virtual_cpus_are_known_by_their_names(tmp_path: Path, names: dict[int, str], vcpus: set[int]) -> None:
    assert vcpu_threads(70, proc_of(tmp_path, names)) == vcpus


@pytest.fixture
def second_thread() -> Iterator[int]:
    """Give the id of another thread of this process."""
    ended, begun = threading.Event(), threading.Event()
    found: list[int] = []

    def live() -> None:
        found.append(threading.get_native_id())
        begun.set()
        ended.wait()

    thread = threading.Thread(target=live)
    thread.start()
    begun.wait()
    yield found[0]
    ended.set()
    thread.join()


def test_time_of_virtual_cpus_is_the_servers_where_the_guest_runs(second_thread: int) -> None:
    pid = os.getpid()
    vcpus = frozenset({pid, second_thread})
    running, standing = (cpu_times([HostProcess(pid, vcpus, runs)]) for runs in (True, False))
    assert running.server_ns > 0
    assert standing.server_ns == 0
    # All of its time then, as it is in the other one together.
    assert (standing.host_ns or 0) >= running.server_ns + (running.host_ns or 0)
    with pytest.raises(StealtimeError, match="is named as a virtual CPU"):
        cpu_times([HostProcess(pid, frozenset(), runs_guest=True)])
    assert cpu_times([]) == CpuTimes(0, 0, 0)


def test_where_groups_hold_whole_processes_qemu_stays_outside(tmp_path: Path) -> None:
    group, outside = tmp_path / "group", tmp_path / "outside"
    group.mkdir()
    outside.mkdir()
    side = HostSide(CpuGroup(CpuHierarchy(2, tmp_path), group, Share(weight=1000)), outside)
    side.take([HostProcess(7), HostProcess(8, frozenset({9}), runs_guest=True)])
    assert ((group / "cgroup.procs").read_text(), (outside / "cgroup.procs").read_text()) == ("7", "8")
    one = registrations(weighed=side.held)
    assert cell_of(GUEST, "register", {**NET, "host_weight": 1000}, [one]).limits == [
        "of the host side only members and daemons were weighed: version 2 of cgroups cannot part QEMU's threads"
    ]


def row(begin_ns: int, pause_ns: int, pages: int = 10, shipped_bytes: int = 1_000) -> dict[str, int]:
    return {
        "begin_ns": begin_ns, "pause_ns": pause_ns, "hold_ns": 5, "pages": pages, "shipped_bytes": shipped_bytes,
    }  # fmt: skip


def test_checkpoints_are_told_by_guest_and_by_epoch() -> None:
    rows = [row(number, number) for number in range(1, 201)]
    one = checkpoints_of([rows], 20_000_000_000)
    assert one is not None
    assert (one.pause_p50_ns, one.pause_p99_ns, one.pause_max_ns) == (100, 198, 200)
    assert (one.epochs_per_s, one.bytes_per_epoch, one.pages_per_epoch) == (10, 1_000, 10)
    two = checkpoints_of([rows, rows], 20_000_000_000)
    assert two is not None
    assert (two.epochs, two.epochs_per_s, two.bytes_per_epoch) == (400, 10, 1_000)
    assert checkpoints_of([], 1) is None
    assert checkpoints_of([[]], 1) is None


def test_epochs_that_were_put_aside_meanwhile_are_not_missed(tmp_path: Path) -> None:
    newer, older = tmp_path / "epochs.csv", tmp_path / "epochs.csv.1"
    newer.write_text("epoch,begin_ns\n3,30\n4,40\n5,5")
    older.write_text("epoch,begin_ns\n1,10\n2,20\n")
    assert [one["epoch"] for one in read_epochs(newer, 15)] == [2, 3, 4]
    assert [one["epoch"] for one in read_epochs(newer, 35)] == [4]
    older.unlink()
    assert [one["epoch"] for one in read_epochs(newer, 15)] == [3, 4]


CHECKPOINTS = Checkpoints(
    epochs=20, elapsed_ns=2_000 * MS, pause_p50_ns=7 * MS, pause_p99_ns=12 * MS, pause_max_ns=15 * MS,
    pause_total_ns=140 * MS, hold_p50_ns=9 * MS, shipped_bytes=20 * 300_000, pages=20 * 800,
)  # fmt: skip


def test_what_protection_costs_stands_beside_the_state() -> None:
    cells = [
        cell_of(GUEST, "register", {**NET, **size}, [registrations(checkpoints=CHECKPOINTS)])
        for size in ({}, {"registered": 100_000}, {"registered": 100_000, "cpus": 2}, {"host_weight": 1000})
    ]
    cells.append(cell_of(GUEST, "register", {"mode": "off", "rate_per_s": 200}, [registrations()]))
    tables = {one.title: one for one in tables_of(STUDY, cells)}
    rows = tables["What protection costs while phones register, or calls are up"].rows
    assert [line[0] for line in rows] == [
        f"{GUEST} net every 100ms, UDP, 200/s (1x)",
        f"{GUEST} net every 100ms, 100,000 users, UDP, 200/s (1x)",
        f"{GUEST} net every 100ms, 2 vCPUs, 100,000 users, UDP, 200/s (1x)",
        f"{GUEST} net every 100ms, host weight 1000, UDP, 200/s (1x)",
        # For its CPU, which that of the others is held against.
        f"{GUEST}, 200/s (1x)",
    ]
    assert list(rows[0][1:6]) == ["7.00 ms", "12.0 ms", "10/s", "300 kB", "800"]
    notes = " ".join(wording.notes(cells))
    assert "several can give more than 100 %" in notes
    assert "so many were registered before the load" in notes
    assert "Host weight" in notes


def test_two_busy_vcpus_are_more_than_one_cpu() -> None:
    cell = cell_of(GUEST, "register", {**NET, "cpus": 2}, [registrations(server_cpu_ns=3_000 * MS)])
    assert cell.figure("server_cpu_percent").p50 == 150


def test_a_result_from_before_checkpoints_were_kept_is_read() -> None:
    new: set[str] = {"checkpoints", "weighed"}
    stored: dict[str, Any] = registrations().model_dump(exclude=new)
    assert not new & set(stored)
    assert type(registrations()).model_validate(stored).checkpoints is None


def test_users_from_before_the_load_who_are_lost_are_told_and_have_no_bound() -> None:
    cell = cell_of(GUEST, "register-failover", {**NET, "registered": 1_000}, [
        failover(asked_of_before=500, lost_of_before=3), failover(asked_of_before=500),
    ])  # fmt: skip
    assert cell.limits == [
        "3 of 1000 users who were registered before the load, and asked for, were lost with their host in 1 of 2 "
        "failovers"
    ]
    assert cell.bounded().endless == "3 acknowledged registrations were lost"
