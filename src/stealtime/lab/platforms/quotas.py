"""The CPU quotas that hold for a thread: CFS bandwidth of its group and of those above it, cgroups of both versions.

A thread that has used up its group's quota of a period is stopped by the kernel until the next one begins. In a guest
that looks like a host that takes the CPU away at regular times, so a reader must know of it, whoever set it: a share of
the scenario, ``CPUQuota=`` of the systemd service that the run was started from, ``docker run --cpus``.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.cgroup import CpuHierarchy, find_hierarchy
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding

PROC = Path("/proc")
_SCHED_DEADLINE = 6
_NOT_BOUND = (os.SCHED_FIFO, os.SCHED_RR, _SCHED_DEADLINE)
"""Policies that a quota of the fair scheduler does not hold back."""


@dataclass(frozen=True)
class Quota:
    """A group with a quota."""

    group: Path
    quota_us: int
    period_us: int

    @property
    def cpus(self) -> float:
        return self.quota_us / self.period_us


def group_of(text: str, hierarchy: CpuHierarchy) -> Path | None:
    """Find the CPU group in a ``/proc/PID/cgroup``.

    Args:
        text: Of that file.
        hierarchy: The one with the cpu controller.

    Returns:
        Its folder; None where the process is in none that is seen from here.
    """
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found = controllers == "" if hierarchy.version == 2 else "cpu" in controllers.split(",")
        if found and not path.startswith("/.."):
            return hierarchy.root / path.lstrip("/")
    return None


def quotas_above(group: Path, hierarchy: CpuHierarchy) -> list[Quota]:
    """Give the quotas that hold in a group: its own and those above it, up to what is mounted.

    The root of a whole hierarchy has none; in a container it is the container's own group that is mounted.
    """
    quotas = []
    while group.is_relative_to(hierarchy.root):
        if (quota := _read_quota(group, hierarchy)) is not None:
            quotas.append(quota)
        group = group.parent
    return quotas


def machine_quotas(threads: Iterable[HostThread]) -> tuple[Finding, ...]:
    """Tell of the quotas that can stop a machine's virtual CPUs; see :func:`quota_findings`.

    Args:
        threads: Of the machine. An agent of this host's own, which no guest is around, looks for itself.
    """
    try:
        return quota_findings(threads, find_hierarchy())
    except StealtimeError:
        return ()  # without the controller there is no quota


def quota_findings(threads: Iterable[HostThread], hierarchy: CpuHierarchy, proc: Path = PROC) -> tuple[Finding, ...]:
    """Tell of the quotas that can stop a machine's virtual CPUs.

    Args:
        threads: Of the machine, as ``/proc`` shows them.
        hierarchy: The one with the cpu controller.
        proc: Where the threads are shown.
    """
    vcpus = [thread.tid for thread in threads if thread.role == "vcpu" and not _is_realtime(thread.tid)]
    groups = {group_of(_text(proc / str(tid) / "cgroup"), hierarchy) for tid in vcpus}
    quotas = {quota for group in groups if group is not None for quota in quotas_above(group, hierarchy)}
    return tuple(_finding(quota, vcpus) for quota in sorted(quotas, key=lambda quota: quota.group))


def _finding(quota: Quota, vcpus: Sequence[int]) -> Finding:
    quota_ms, period_ms = quota.quota_us / 1e3, quota.period_us / 1e3
    pause_ms = max(0.0, period_ms - quota_ms)
    effect = (
        f"a busy guest is stopped for up to {pause_ms:g} ms of each"
        if pause_ms > 0
        else f"its {len(vcpus)} virtual CPUs and its emulator together are stopped when they use that up"
    )
    return Finding(
        code="cpu_quota",
        level="limits",
        text=f"a CPU quota of {quota_ms:g} ms in every {period_ms:g} ms holds for the machine's processes on the host "
        f"({quota.group}): {effect}, by the kernel's bandwidth control",
        hint="where that is not what is to be measured, lift it: share of the scenario, CPUQuota= of systemd, --cpus "
        "of docker",
    )


def _is_realtime(tid: int) -> bool:
    try:
        return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK in _NOT_BOUND
    except OSError:
        return False


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace")
    return ""  # the thread ended meanwhile


def _read_quota(group: Path, hierarchy: CpuHierarchy) -> Quota | None:
    try:
        if hierarchy.version == 2:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return Quota(group, int(quota), int(period))
    return None
