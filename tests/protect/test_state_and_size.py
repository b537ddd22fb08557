"""Users known before a load, servers of two virtual CPUs, and a host side with a weight of its own, for real."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_process import start_run, stored_run
from counting_guest import PATIENT_TIMING
from protect_command import STEALTIME
from two_hosts import laboratory_or_skip

from stealtime.hosts.host_side import HostSide
from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.hosts.waiting import poll
from stealtime.lab.platforms.cgroup import OUR_FOLDER, CpuHierarchy, clear_groups, cpu_group, find_hierarchy
from stealtime.lab.platforms.leftovers import is_left_over
from stealtime.lab.platforms.quotas import group_of
from stealtime.lab.platforms.share import Share, shares_of_weight
from stealtime.studies.telephony.appliance.image import Size
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.registrations.enrolment import Enrolment
from stealtime.studies.telephony.registrations.load import Load, fresh_names, run_load, unknown_users
from stealtime.studies.telephony.results import Registrations
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_WEIGHT = 1000


SIGN_OFF = """
import socket, sys
server = sys.argv[1]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as phone:
    phone.settimeout(10)
    phone.connect((server, 5060))
    own = "%s:%d" % phone.getsockname()
    phone.send("\\r\\n".join([
        f"REGISTER sip:{server} SIP/2.0", f"Via: SIP/2.0/UDP {own};branch=z9hG4bKoff", "Max-Forwards: 70",
        f"From: <sip:user000000@{server}>;tag=off", f"To: <sip:user000000@{server}>", f"Call-ID: off@{own}",
        "CSeq: 1 REGISTER", "Contact: *", "Expires: 0", "Content-Length: 0", "", "",
    ]).encode())
    print(phone.recv(4096).decode())
"""


@pytest.fixture(scope="module")
def place() -> Iterator[GuestPlace]:
    """A protected server of two virtual CPUs."""
    with laboratory_or_skip() as laboratory:
        made = GuestPlace(
            NamespaceTestbed(laboratory), "state", "net", size=Size(cpus=2, registered=2_000), timing=PATIENT_TIMING
        )
        made.start()
        made.await_ready()
        yield made


def test_users_from_before_a_load_are_known_beside_it(place: GuestPlace, tmp_path: Path) -> None:
    enrolment, users = Enrolment(place, 1_500), Load(transport="udp", rate_per_s=1, count=1_500, names="user").users
    enrolment.see_to(tmp_path / "enrolment")
    load = Load(transport="udp", rate_per_s=100, count=100, names=fresh_names())
    registered, _, _ = run_load(place, load, tmp_path / "load")
    assert registered.unanswered == 0
    # One more than there are, so that it is seen that it may be unknown.
    asked = [*users, *load.users, "user001500"]
    assert unknown_users(place.client, place.address, asked, tmp_path / "asked") == ["user001500"]
    # What is known is not registered again.
    enrolment.see_to(tmp_path / "again")
    # Before, it may have taken more than one round until all were registered.
    before = len(list((tmp_path / "enrolment").iterdir()))
    assert [path.name for path in (tmp_path / "again").iterdir()] == [f"known-{before + 1}"]
    # One signs off: the server has forgotten it.
    sign_off = place.client.start([sys.executable, "-c", SIGN_OFF, place.address], stdout=subprocess.PIPE)
    assert sign_off.communicate(timeout=20)[0].startswith(b"SIP/2.0 200")
    with pytest.raises(StealtimeError, match=r"of 500 registered users .* does not know 1, such as user000000"):
        enrolment.see_to(tmp_path / "forgotten")


@pytest.mark.truth
def test_the_time_of_two_busy_vcpus_is_their_sum(place: GuestPlace, tmp_path: Path) -> None:
    (member,) = place.await_protected()
    assert member.qemu_pid is not None
    before = vcpu_times_s(member.qemu_pid)
    load = Load(transport="udp", rate_per_s=1_500, count=4_500, names=fresh_names())
    _, used, elapsed_ns = run_load(place, load, tmp_path / "load")
    each_s = [after - earlier for after, earlier in zip(vcpu_times_s(member.qemu_pid), before, strict=True)]
    assert len(each_s) == 2
    # Both were busy: the busiest alone is far from the sum.
    assert max(each_s) < 0.8 * sum(each_s)
    assert used.server_ns / 1e9 == pytest.approx(sum(each_s), rel=0.1)
    assert used.host_ns is not None
    assert 0 < used.host_ns < elapsed_ns * (os.cpu_count() or 1)


@pytest.fixture
def stranger() -> "Iterator[subprocess.Popen[bytes]]":
    """A process that nobody here knows of."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


async def test_the_host_side_is_weighed_and_virtual_cpus_are_not(
    place: GuestPlace, stranger: "subprocess.Popen[bytes]"
) -> None:
    testbed = place.testbed
    assert isinstance(testbed, NamespaceTestbed)
    async with cpu_group("host-side-of-a-test", Share(weight=_WEIGHT)) as group:
        where, side = group.hierarchy, HostSide.of(group)
        side.take(testbed.processes())
        if where.version == 1:
            assert (group.path / "cpu.shares").read_text().strip() == str(shares_of_weight(_WEIGHT))
        else:
            assert (group.path / "cpu.weight").read_text().strip() == str(_WEIGHT)
        found = [one for process in testbed.processes() for one in threads_in(process.pid, group.path, where)]
        vcpus = [(name, is_in) for name, is_in in found if name.startswith("CPU ")]
        assert {"CPU 0/TCG", "CPU 1/TCG"} == {name for name, _ in vcpus}
        assert not any(is_in for _, is_in in vcpus)
        if where.version == 1:
            assert all(is_in for name, is_in in found if not name.startswith("CPU "))
            assert any("qemu" in name for name, _ in found)
        # A daemon starts members: one that nobody knows of yet is in the group, too.
        (group.path / "cgroup.procs").write_text(str(stranger.pid))
        side.release()
    assert not group.path.exists()
    assert stranger.poll() is None
    place.await_protected()


def test_a_weighed_group_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "group"
    code = (
        "import asyncio, pathlib, subprocess, sys, time\n"
        "from stealtime.hosts.host_side import HostSide\n"
        "from stealtime.hosts.members_here import HostProcess\n"
        "from stealtime.lab.platforms.cgroup import cpu_group\n"
        "from stealtime.lab.platforms.share import Share\n"
        "async def hold():\n"
        "    async with cpu_group('host-side-left', Share(weight=500)) as group:\n"
        "        sleeping = subprocess.Popen(['sleep', '600'])\n"
        "        HostSide.of(group).take([HostProcess(sleeping.pid)])\n"
        "        pathlib.Path(sys.argv[1]).write_text(str(group.path))\n"
        "        time.sleep(600)\n"
        "asyncio.run(hold())\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        assert poll(lambda: path.exists() and path.read_text(), 30.0)
        group = Path(path.read_text())
        assert (group / "cgroup.procs").read_text().split()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert clear_groups(is_left_over)
    assert not group.exists()


CAMPAIGN = """
name = "state"
platforms = ["paravirt"]
scenarios = ["telephony"]
repetitions = 1

[[probes]]
probe = "register"
duration = "2s"
mode = ["net"]
rate = [100]
cpus = [2]
registered = [2000]
host_weight = [500]
"""


@pytest.mark.truth
def test_a_run_tells_what_protection_costs_with_state(tmp_path: Path) -> None:
    campaign = tmp_path / "state.toml"
    campaign.write_text(CAMPAIGN)
    running = start_run(tmp_path, str(campaign))
    _, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    assert "2,000 of 2,000 users are registered, after " in said
    run = stored_run(tmp_path)
    (trial,) = run.measured
    seen = trial.result(Registrations)
    assert (seen.acknowledged, seen.unanswered) == (200, 0)
    assert seen.weighed is not None
    assert ("QEMU" in seen.weighed) == (find_hierarchy().version == 1)
    checkpoints = seen.checkpoints
    assert checkpoints is not None
    assert 0 < checkpoints.pause_p50_ns <= (checkpoints.pause_p99_ns or 0) <= checkpoints.pause_max_ns
    # One every 100 ms, which a busy host may put off.
    assert 3 < checkpoints.epochs_per_s < 11
    # 200 registrations of more than a kilobyte each.
    assert checkpoints.shipped_bytes > 200_000
    shown = subprocess.run([STEALTIME, "show", run.folder, "--all"], capture_output=True, text=True, check=True)
    assert "What protection costs while phones register" in shown.stdout
    mark = f":{running.pid}:"
    assert not [one for one in (find_hierarchy().root / OUR_FOLDER).glob("*") if mark in one.name]


def vcpu_times_s(qemu_pid: int) -> list[float]:
    """Give the CPU time of each virtual CPU, as ``stat`` counts it in ticks."""
    times = {}
    for task in Path(f"/proc/{qemu_pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("CPU "):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            times[name] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return [times[name] for name in sorted(times)]


def threads_in(pid: int, group: Path, where: CpuHierarchy) -> Iterator[tuple[str, bool]]:
    """Give the name of each thread of a process, and whether it is in a CPU group."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield (task / "comm").read_text().strip(), group_of((task / "cgroup").read_text(), where) == group
