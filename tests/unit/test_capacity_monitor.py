"""What QEMU and debugfs tell of a guest, without a QEMU."""

from pathlib import Path

import pytest

from stealtime.capacity.counters import monitor
from stealtime.capacity.document import HypervisorDocument
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.guests.roles import roles_by_monitor
from stealtime.vocabulary.readings import Absent, Value


def guest(path: Path | None = None) -> Guest:
    return Guest("a", "qemu", pid=4711, started_ticks=1, monitor=path)


async def test_without_a_monitor_and_debugfs_everything_is_absent_with_the_reason(tmp_path: Path) -> None:
    look = await monitor.look(guest(), tmp_path / "nothing")
    assert isinstance(look.balloon_bytes, Absent)
    assert "no monitor on a Unix socket" in look.balloon_bytes.absent
    assert isinstance(look.counters, Absent)


async def test_a_monitor_that_is_gone_is_said(tmp_path: Path) -> None:
    look = await monitor.look(guest(tmp_path / "gone.sock"), tmp_path)
    assert isinstance(look.balloon_bytes, Absent)
    assert "No such file" in look.balloon_bytes.absent


def write_debugfs(folder: Path, exits: int) -> None:
    (folder / "4711-12").mkdir(exist_ok=True)
    (folder / "4711-12" / "exits").write_text(f"{exits}\n")
    (folder / "4711-12" / "halt_exits").write_text("7\n")


async def test_root_finds_counters_of_kvm_in_debugfs(tmp_path: Path) -> None:
    write_debugfs(tmp_path, 100)
    before = await monitor.look(guest(), tmp_path)
    write_debugfs(tmp_path, 350)
    gained = monitor.between(before, await monitor.look(guest(), tmp_path))
    document = HypervisorDocument.of(gained, elapsed_s=10.0)
    assert document.per_second == {"exits": Value(value=25.0), "halt_exits": Value(value=0.0)}


async def test_a_counter_of_kvm_that_went_back_is_absent(tmp_path: Path) -> None:
    write_debugfs(tmp_path, 100)
    before = await monitor.look(guest(), tmp_path)
    write_debugfs(tmp_path, 99)
    gained = monitor.between(before, await monitor.look(guest(), tmp_path))
    document = HypervisorDocument.of(gained, elapsed_s=10.0)
    assert not isinstance(document.per_second, Absent)
    assert isinstance(document.per_second["exits"], Absent)


async def test_a_process_that_kvm_does_not_know_does_not_run_under_it(tmp_path: Path) -> None:
    counters = monitor.read_debugfs(guest(), tmp_path)
    assert isinstance(counters, Absent)
    assert "does not run under KVM" in counters.absent


@pytest.mark.parametrize(
    ("told", "roles"),
    [
        ([12, 11], [GuestThread(10, "emulator"), GuestThread(11, "vcpu", 1), GuestThread(12, "vcpu", 0)]),
        ([], []),
        ([3, 4], []),  # as another PID namespace numbers them
    ],
)
def test_threads_as_the_monitor_tells_them(told: list[int], roles: list[GuestThread]) -> None:
    assert roles_by_monitor([10, 11, 12], told) == roles
