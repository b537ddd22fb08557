"""Guests that are found and asked without a name: by the virtual CPUs of KVM they hold, and by QEMU's guest agent."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from guest_agent_daemon import guest_agent
from machines import needs_root

from stealtime.capacity.collector import Collector
from stealtime.capacity.guest import Guest
from stealtime.capacity.guests.agent_view import AgentSocket, RefusedError
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.sample import GuestSample, GuestView
from stealtime.capacity.use import between
from stealtime.vocabulary.readings import Absent

pytestmark = [pytest.mark.guest, needs_root]

HOLDER = Path(__file__).parents[1] / "rigs/kvm_holder.py"


@contextmanager
def holding(shown_as: str, threads: str, *arguments: str) -> Iterator[int]:
    """Run a process under another name that holds virtual CPUs."""
    process = subprocess.Popen(
        [shown_as, str(HOLDER), threads, *arguments],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def kvm() -> None:
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"/dev/kvm cannot be opened: {error.strerror}")


def sample_of(collector: Collector, pid: int) -> GuestSample | None:
    return next((one for one in collector.sample().guests.values() if one.guest.pid == pid), None)


@pytest.mark.usefixtures("kvm")
@pytest.mark.parametrize(
    ("shown_as", "threads", "arguments", "name", "kind"),
    [
        ("firecracker", "fc_vcpu 0,fc_vcpu 1", ("--id", "web"), "web", "kvm"),
        ("/opt/vendor/appliance", "CPU 0/KVM,CPU 1/KVM", ("-name", "guest=db", "-accel", "kvm"), "db", "qemu"),
        ("ld-linux-x86-64.so.2", "vcpu0,vcpu1", (), None, "kvm"),
    ],
)
def test_who_holds_virtual_cpus_is_a_guest_under_any_name(
    shown_as: str, threads: str, arguments: tuple[str, ...], name: str | None, kind: str
) -> None:
    with holding(shown_as, threads, *arguments) as pid, Collector() as collector:
        first = sample_of(collector, pid)
        assert first is not None, sorted(one.guest.name for one in collector.sample().guests.values())
        before = collector.sample()
        time.sleep(0.4)
        use = between(before, collector.sample()).guests[first.guest.key]
    assert (first.guest.name, first.guest.kind) == (name or f"{shown_as}-{pid}", kind)
    assert sorted(use.vcpus) == [0, 1]
    assert use.unreadable is None
    # Each works for 10 ms and sleeps for 50: whatever else runs here, it runs for some of the time and not for all.
    assert all(0 < vcpu.run_percent < 60 for vcpu in use.vcpus.values()), use


@pytest.mark.usefixtures("kvm")
def test_a_process_that_makes_a_guest_while_it_is_watched_is_found() -> None:
    with Collector() as collector:
        collector.sample()
        with holding("cloud-hypervisor", "vcpu0") as pid:
            assert sample_of(collector, pid) is not None
        assert sample_of(collector, pid) is None


@pytest.mark.asyncio(loop_scope="session")
async def test_a_guest_agent_tells_its_kernels_queue(tmp_path: Path, tell: Callable[[str], None]) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    async with guest_agent(tmp_path, temporary) as path:
        views = GuestViews({})
        ask = views.of(Guest("a", "qemu", os.getpid(), 1, agent=path))
        first, second = ask(), ask()
        views.close()
        assert isinstance(first, GuestView), first
        assert isinstance(second, GuestView)
        assert first.vcpus == os.cpu_count()
        assert first.running >= 1
        assert all(
            after[3] >= before[3] for before, after in zip(first.ticks.values(), second.ticks.values(), strict=True)
        )
        assert list(temporary.iterdir()) == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_guest_agent_that_reads_no_files_is_asked_for_the_load(tmp_path: Path) -> None:
    async with guest_agent(tmp_path, tmp_path, "--block-rpcs", "guest-file-open") as path:
        asking = AgentSocket(path)
        try:
            knows_load = asking.ask("guest-get-load", {}) is not None
        except RefusedError:
            knows_load = False
        asking.close()
        views = GuestViews({})
        ask = views.of(Guest("a", "qemu", os.getpid(), 1, agent=path))
        view = ask()
        views.close()
    if knows_load:
        assert isinstance(view, GuestView)
    else:
        assert isinstance(view, Absent)
        assert "guest-get-load" in view.absent


def test_a_socket_that_nobody_answers_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    listening = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind({str(path)!r})\ns.listen()\ntime.sleep(60)",
        ]
    )
    try:
        deadline_s = time.monotonic() + 10
        while not path.exists() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        views = GuestViews({})
        ask = views.of(Guest("a", "qemu", os.getpid(), 1, agent=path))
        began_s = time.monotonic()
        answers = [ask() for _ in range(5)]
        took_s = time.monotonic() - began_s
        views.close()
    finally:
        listening.kill()
        listening.wait()
    assert all(isinstance(one, Absent) for one in answers)
    # It is asked three times, and then left alone.
    assert took_s < 5
    last = answers[-1]
    assert isinstance(last, Absent)
    assert "is not asked any more" in last.absent
