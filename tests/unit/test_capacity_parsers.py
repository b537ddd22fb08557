"""Parsers of the kernel's counters, on files recorded from several kernels (``recorded_counters/SOURCES.md``)."""

from pathlib import Path

import pytest

from stealtime.capacity.counters.parsers import (
    CPU_COLUMNS,
    ThreadCounts,
    parse_cpu_rows,
    parse_memory,
    parse_number_after,
    parse_pressure,
    parse_runs_guest,
    parse_schedstat,
)
from stealtime.capacity.counters.quota import read_throttled
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.host_views import parse_guest_ticks
from stealtime.lab.platforms.quotas import quotas_above
from stealtime.vocabulary.readings import Absent

RECORDED = Path(__file__).parent / "recorded_counters"


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def test_a_threads_schedstat_is_run_wait_and_dispatches() -> None:
    assert parse_schedstat(recorded("procfs-schedstat")) == ThreadCounts(411605849, 93680043, 79)
    assert parse_schedstat(recorded("linux-6.18-schedstat")) == ThreadCounts(201924947, 21181181, 639)


@pytest.mark.parametrize("text", [b"", b"1 2\n", b"1 2 3 4\n", b"1 2 x\n"])
def test_what_is_no_schedstat_gives_nothing(text: bytes) -> None:
    assert parse_schedstat(text) is None
    assert parse_schedstat(recorded("procfs-schedstat-malformed")) is None


def test_the_cpus_of_a_stat_are_read_without_their_sum() -> None:
    rows = parse_cpu_rows(recorded("procfs-proc-stat"))
    assert sorted(rows) == list(range(8))
    assert dict(zip(CPU_COLUMNS, rows[3], strict=True)) == {
        "user": 47054, "nice": 102, "system": 15683, "idle": 1113230, "iowait": 533,
        "irq": 0, "softirq": 60, "steal": 0, "guest": 0, "guest_nice": 0,
    }  # fmt: skip
    guest, guest_nice = (CPU_COLUMNS.index(name) for name in ("guest", "guest_nice"))
    assert [parse_cpu_rows(recorded("node-exporter-proc-stat"))[2][column] for column in (guest, guest_nice)] == [4, 3]


def test_an_old_kernels_short_line_stays_short() -> None:
    # Linux 2.6.11 to 2.6.23 count up to steal (proc_stat(5)).
    assert parse_cpu_rows(b"cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\nintr 0\n") == {0: (1, 2, 3, 4, 5, 6, 7, 8)}


def test_offline_cpus_are_missing_not_zero() -> None:
    assert list(parse_cpu_rows(b"cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu3 5 6 7 8\nintr 0\n")) == [0, 3]


def test_running_threads_of_a_stat() -> None:
    assert parse_number_after(recorded("procfs-proc-stat"), b"procs_running") == 2
    assert parse_number_after(b"cpu0 1\n", b"procs_running") is None


def test_pressure_of_kernels_with_and_without_full() -> None:
    assert parse_pressure(recorded("procfs-pressure-cpu")) == {"some": 15}
    assert parse_pressure(recorded("procfs-pressure-memory")) == {"some": 15, "full": 25}
    assert parse_pressure(recorded("node-exporter-pressure-cpu")) == {"some": 14036781, "full": 0}
    assert parse_pressure(recorded("node-exporter-pressure-irq")) == {"full": 8494}
    with pytest.raises(ValueError, match="has no total"):
        parse_pressure(b"some avg10=0.00\n")


def test_available_memory_needs_a_kernel_that_tells_it() -> None:
    assert parse_memory(recorded("procfs-meminfo")) is None
    assert parse_memory(recorded("linux-6.18-meminfo")) == (24_684_092 * 1024, 22_422_860 * 1024)


def test_guest_time_stands_behind_a_name_with_parentheses() -> None:
    assert parse_guest_ticks(recorded("procfs-stat-parentheses")) == 0
    fields = recorded("procfs-stat-parentheses").rstrip().rsplit(b") ", 1)[1].split()
    fields[40] = b"4711"
    assert parse_guest_ticks(b"1020 ((a b ) ( c d) ) " + b" ".join(fields)) == 4711
    assert parse_guest_ticks(b"1 (old) S 1") is None


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (b"16 0xd 0xae80 0x0 0x0 0x0 0x0 0x7ffd 0x7f", True),
        (b"16 0xd 0x4020ae46 0x7ffd 0x0", False),
        (b"16 0xa 0xae80 0x0 0x0 0x55c7d7f9c290 0x0 0x0 0x0", False),
        (b"202 0x5 0xae80 0x0", False),
        (b"running", False),
        (b"-1 0x7ffd 0x7f", False),
        (b"", False),
    ],
)
def test_a_thread_that_waits_inside_kvm(text: bytes, runs: bool) -> None:
    assert parse_runs_guest(text) is runs


def test_quotas_of_groups_above_hold_too(tmp_path: Path) -> None:
    hierarchy = CpuHierarchy(2, tmp_path)
    scope, vcpu0, vcpu1 = tmp_path / "a.scope", tmp_path / "a.scope/vcpu0", tmp_path / "a.scope/vcpu1"
    for group, limit, throttled_us in (
        (scope, "max 100000", 0),
        (vcpu0, "50000 100000", 300),
        (vcpu1, "150000 100000", 500),
    ):
        group.mkdir()
        (group / "cpu.max").write_text(limit + "\n")
        (group / "cpu.stat").write_text(f"usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec {throttled_us}\n")
    quotas = [*quotas_above(vcpu0, hierarchy), *quotas_above(vcpu1, hierarchy)]
    assert [quota.cpus for quota in quotas] == [0.5, 1.5]
    throttled = read_throttled(quotas, hierarchy)
    assert throttled is not None
    assert not isinstance(throttled, Absent)
    assert (throttled.held_ns, throttled.quota_cpus) == ({vcpu0: 300_000, vcpu1: 500_000}, 0.5)
    assert read_throttled([], hierarchy) is None
    (vcpu0 / "cpu.stat").unlink()
    assert isinstance(read_throttled(quotas, hierarchy), Absent)
