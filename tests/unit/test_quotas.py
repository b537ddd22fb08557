"""Quotas that hold for a machine's threads on the host: where they are found, and what is told of them."""

import os
from pathlib import Path

import pytest

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.quotas import group_of, quota_findings, quotas_above

RECORDED = Path(__file__).parent / "recorded_counters"


def test_the_cpu_group_of_both_versions() -> None:
    version_1 = CpuHierarchy(1, Path("/sys/fs/cgroup/cpu"))
    assert group_of((RECORDED / "linux-6.18-cgroup-v1").read_text(), version_1) == Path("/sys/fs/cgroup/cpu")
    libvirt = "0::/machine.slice/machine-qemu\\x2d1\\x2da.scope/libvirt/vcpu0\n"
    version_2 = CpuHierarchy(2, Path("/sys/fs/cgroup"))
    assert group_of(libvirt, version_2) == Path(
        "/sys/fs/cgroup/machine.slice/machine-qemu\\x2d1\\x2da.scope/libvirt/vcpu0"
    )
    assert group_of("0::/../outside\n", version_2) is None


def test_a_quota_of_version_1(tmp_path: Path) -> None:
    group = tmp_path / "guest"
    group.mkdir()
    (group / "cpu.cfs_quota_us").write_text("25000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert [quota.cpus for quota in quotas_above(group, CpuHierarchy(1, tmp_path))] == [0.25]
    (group / "cpu.cfs_quota_us").write_text("-1\n")
    assert quotas_above(group, CpuHierarchy(1, tmp_path)) == []


def test_a_container_s_own_group_is_its_root(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    hierarchy = CpuHierarchy(2, tmp_path)
    assert [quota.cpus for quota in quotas_above(tmp_path, hierarchy)] == [0.5]
    # In v1 without a namespace of its own, the path is the host's and not seen from inside.
    assert [quota.cpus for quota in quotas_above(tmp_path / "docker/4f", hierarchy)] == [0.5]


def thread(role: str, tid: int) -> HostThread:
    return HostThread(role=role, name="CPU 0/TCG", tid=tid, cpus=(0,))  # type: ignore[arg-type]


def fabricate(folder: Path) -> tuple[CpuHierarchy, Path]:
    service = folder / "cgroup/system.slice/run.service"
    service.mkdir(parents=True)
    (service.parent / "cpu.max").write_text("max 100000\n")
    (service / "cpu.max").write_text("20000 100000\n")
    for tid in (71, 72, 73):
        (folder / f"proc/{tid}").mkdir(parents=True)
        (folder / f"proc/{tid}/cgroup").write_text("0::/system.slice/run.service\n")
    return CpuHierarchy(2, folder / "cgroup"), folder / "proc"


def is_ordinary(monkeypatch: pytest.MonkeyPatch, *realtime: int) -> None:
    policy = dict.fromkeys(realtime, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK)
    monkeypatch.setattr(os, "sched_getscheduler", lambda tid: policy.get(tid, os.SCHED_OTHER))


def test_one_quota_of_all_virtual_cpus_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ordinary(monkeypatch)
    hierarchy, proc = fabricate(tmp_path)
    [finding] = quota_findings([thread("vcpu", 71), thread("vcpu", 72), thread("emulator", 73)], hierarchy, proc)
    assert (finding.code, finding.level) == ("cpu_quota", "limits")
    for part in ("20 ms in every 100 ms", "run.service", "up to 80 ms", "bandwidth control"):
        assert part in finding.text


def test_a_quota_that_one_cpu_cannot_use_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ordinary(monkeypatch)
    hierarchy, proc = fabricate(tmp_path)
    (tmp_path / "cgroup/system.slice/run.service/cpu.max").write_text("150000 100000\n")
    [finding] = quota_findings([thread("vcpu", 71), thread("vcpu", 72)], hierarchy, proc)
    assert "its 2 virtual CPUs and its emulator together" in finding.text


def test_who_is_not_bound_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ordinary(monkeypatch, 71)
    hierarchy, proc = fabricate(tmp_path)
    assert quota_findings([thread("vcpu", 71), thread("agent", 72)], hierarchy, proc) == ()
    assert quota_findings([thread("vcpu", 999)], hierarchy, proc) == (), "it has ended"
