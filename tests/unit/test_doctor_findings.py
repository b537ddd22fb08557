"""Each finding on a machine that is well kept, and on one where just that is wrong."""

from pathlib import Path

import pytest
from fabricated_machine import CPU, WELL_KEPT, FabricatedAttempts, fabricate

from stealtime.doctor.findings import examine_state
from stealtime.doctor.model import Finding, Level
from stealtime.doctor.resting_memory import RestedPages, rest_pages
from stealtime.lab.processors import CpuSets
from stealtime.vocabulary.readings import Absent, Value

CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
THROTTLED = {"/proc/sys/kernel/sched_rt_runtime_us": "950000"}
NEWER_KERNEL = {"/proc/sys/kernel/osrelease": "6.18.4-amd64"}


def find(findings: list[Finding], name: str) -> Finding:
    [finding] = [finding for finding in findings if finding.id == name]
    return finding


def test_a_well_kept_machine_has_nothing_to_mend(tmp_path: Path) -> None:
    findings = examine_state(fabricate(tmp_path), FabricatedAttempts())
    assert [(finding.id, finding.text) for finding in findings if finding.level is not Level.OK] == []
    assert len({finding.id for finding in findings}) == len(findings)


@pytest.mark.parametrize(
    ("name", "changes", "in_text", "in_fix"),
    [
        ("rt_throttling", THROTTLED, "stopped for 50 ms of every 1000 ms", "--lift-rt-throttling"),
        ("fair_server", NEWER_KERNEL, "up to 50 ms", "fair_server/cpu*/runtime"),
        (
            "cpu_quota",
            {"/sys/fs/cgroup/user.slice/cpu.max": "20000 100000"},
            "20 ms of CPU time in every 100 ms (/sys/fs/cgroup/user.slice)",
            "echo max > /sys/fs/cgroup/user.slice/cpu.max",
        ),
        (
            "preemption",
            {"/proc/version": "Linux version 6.1 #1 SMP PREEMPT_DYNAMIC Debian", "/sys/kernel/realtime": None},
            "PREEMPT_DYNAMIC",
            "linux-image-rt-amd64",
        ),
        ("watchdogs", {"/proc/sys/kernel/nmi_watchdog": "1"}, "nmi", "kernel.watchdog=0"),
        ("timer_migration", {"/proc/sys/kernel/timer_migration": "1"}, "on", "kernel.timer_migration=0"),
        ("load", {"/proc/loadavg": "3.50 1 1 1/1 1"}, "3.50 tasks", "top"),
        ("tsc", {"/proc/cpuinfo": "flags : tsc constant_tsc"}, "nonstop_tsc", "+invtsc"),
        ("clocksource", {f"{CLOCKSOURCE}/current_clocksource": "hpet"}, "hpet instead of tsc", "echo tsc >"),
        (
            "clocksource",
            {
                f"{CLOCKSOURCE}/current_clocksource": "hpet",
                f"{CLOCKSOURCE}/available_clocksource": "hpet acpi_pm",
            },
            "available: hpet acpi_pm",
            "dmesg",
        ),
        ("hypervisor", {"/proc/cpuinfo": "flags : constant_tsc nonstop_tsc hypervisor"}, "is a guest", "physical"),
        ("cpus", {f"{CPU}/online": "0"}, "shares the measured CPU", "two CPUs"),
        ("cpu_isolation", {f"{CPU}/isolated": ""}, "no CPU is isolated", "nohz_full=3 rcu_nocbs=3 irqaffinity=0-2"),
        ("cpu_isolation", {"/proc/cmdline": "isolcpus=3"}, "without nohz_full, rcu_nocbs, irqaffinity", "update-grub"),
        ("cpu_governor", {f"{CPU}/cpu1/cpufreq/scaling_governor": "schedutil"}, "schedutil", "echo performance"),
        ("cpu_turbo", {f"{CPU}/intel_pstate/no_turbo": "0"}, "on", "no_turbo"),
        ("cpu_turbo", {f"{CPU}/intel_pstate/no_turbo": None, f"{CPU}/cpufreq/boost": "1"}, "on", "cpufreq/boost"),
        (
            "smt",
            {f"{CPU}/smt/active": "1", f"{CPU}/cpu0/topology/thread_siblings_list": "0,2"},
            "share a core: 0,2",
            "smt/control",
        ),
        ("idle_states", {f"{CPU}/cpu0/cpuidle/state2/disable": "0"}, "C6 is the deepest", "/dev/cpu_dma_latency"),
        ("free_memory", {"/proc/meminfo": "MemAvailable: 1000000 kB"}, "1.0 GiB", "shorter"),
        (
            "free_memory",
            {
                "/proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
                "/sys/fs/cgroup/user.slice/memory.max": str(1100 << 20),
                "/sys/fs/cgroup/user.slice/memory.current": str(76 << 20),
            },
            "1.0 GiB (by /sys/fs/cgroup/user.slice/memory.max)",
            "shorter",
        ),
        ("swap", {"/proc/swaps": "Filename Type\n/dev/sda2 partition 1 0 -2"}, "/dev/sda2", "swapoff -a"),
        (
            "transparent_huge_pages",
            {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"},
            "always",
            "echo madvise",
        ),
        ("ksm", {"/sys/kernel/mm/ksm/run": "1"}, "on", "ksm/run"),
        (
            "numa_balancing",
            {"/proc/sys/kernel/numa_balancing": "1", "/sys/devices/system/node/node1/cpulist": "4-7"},
            "over 2 nodes",
            "kernel.numa_balancing=0",
        ),
        ("tracefs", {"/proc/self/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"}, "not mounted", "mount -t tracefs"),
        ("lockdown", {"/sys/kernel/security/lockdown": "none [integrity]"}, "integrity", "Secure Boot"),
        (
            "cgroups",
            {"/sys/fs/cgroup/cgroup.controllers": "memory"},
            "without the controller cpu and",
            "mount",
        ),
        ("cgroups", {"/proc/self/mounts": "proc /proc proc rw 0 0"}, "none are mounted", "mount -t cgroup2"),
    ],
)
def test_one_thing_that_is_wrong_is_found_and_nothing_else(
    tmp_path: Path, name: str, changes: dict[str, str | None], in_text: str, in_fix: str
) -> None:
    findings = examine_state(fabricate(tmp_path, changes), FabricatedAttempts())
    finding = find(findings, name)
    assert finding.level is Level.LIMITS
    assert in_text in finding.text
    assert in_fix in (finding.fix or "")
    others = [other.id for other in findings if other.level is not Level.OK and other.id != name]
    # Without any mount there is no tracefs either.
    assert others == (["tracefs"] if "none are mounted" in in_text else [])


def test_memory_that_rests_elsewhere_is_named(tmp_path: Path) -> None:
    rested = RestedPages(8_192, [100_000] * 300 + [200_000] * 301)
    finding = find(examine_state(fabricate(tmp_path), FabricatedAttempts(rested=rested)), "resting_memory")
    assert finding.level is Level.LIMITS
    assert finding.text.startswith("7% of the pages that rested for half a second took 200 us")
    assert finding.reading == Value(value={"pages": 8_192, "stalled": 601, "stalled_p50_ns": 200_000})
    few = FabricatedAttempts(rested=RestedPages(8_192, [60_000] * 40))
    assert find(examine_state(fabricate(tmp_path), few), "resting_memory").level is Level.OK, "interrupts meet some"


def test_pages_are_touched_and_touched_again() -> None:
    rested = rest_pages(pages=64, rest_s=0.0)
    assert rested.pages == 64
    assert len(rested.took_ns) < 64


def test_a_host_that_is_itself_emulated_is_named(tmp_path: Path) -> None:
    flags = {"/proc/cpuinfo": "flags : constant_tsc nonstop_tsc hypervisor"}
    attempts = FabricatedAttempts(hypervisor_signature="TCGTCGTCGTCG")
    finding = find(examine_state(fabricate(tmp_path, flags), attempts), "hypervisor")
    assert finding.level is Level.LIMITS
    assert "KVM runs inside an emulated machine: times mean nothing" in finding.text


@pytest.mark.parametrize(
    ("name", "attempts", "level", "in_text", "in_fix"),
    [
        (
            "sched_fifo",
            FabricatedAttempts(refused={"sched_fifo": "EPERM"}),
            Level.BLOCKS,
            "RLIMIT_RTPRIO is 0",
            "rtprio",
        ),
        ("memory_lock", FabricatedAttempts(refused={"lock_memory": "ENOMEM"}), Level.LIMITS, "ENOMEM", "memlock"),
        ("tracefs", FabricatedAttempts(refused={"trace_clock": "EPERM"}), Level.LIMITS, "EPERM", "CONFIG_FTRACE"),
        (
            "function_tracer",
            FabricatedAttempts(refused={"set_ftrace_filter": "EPERM"}),
            Level.LIMITS,
            "refused",
            "boot",
        ),
        ("perf", FabricatedAttempts(refused={"hardware": "ENOENT"}), Level.LIMITS, "only software", "pmu=on"),
        (
            "perf",
            FabricatedAttempts(refused={"hardware": "EACCES", "software": "EACCES"}),
            Level.LIMITS,
            "refused: EACCES (perf_event_paranoid is 1)",
            "perf_event_paranoid=1",
        ),
        ("programs", FabricatedAttempts(missing_programs=["linux.uml"]), Level.LIMITS, "linux.uml", "user-mode-linux"),
        ("agent", FabricatedAttempts(refused={"stealtime-agent": "ENOENT"}), Level.BLOCKS, "ENOENT", "make setup"),
        ("data_folder", FabricatedAttempts(free=1 << 20), Level.BLOCKS, "0.0 GiB free", "XDG_DATA_HOME"),
        ("cache_folder", FabricatedAttempts(free=1 << 30), Level.LIMITS, "1.0 GiB free", "XDG_CACHE_HOME"),
    ],
)
def test_what_is_refused_is_found_with_what_the_kernel_said(
    tmp_path: Path, name: str, attempts: FabricatedAttempts, level: Level, in_text: str, in_fix: str
) -> None:
    finding = find(examine_state(fabricate(tmp_path), attempts), name)
    assert finding.level is level
    assert in_text in finding.text
    assert in_fix in (finding.fix or "")


@pytest.mark.parametrize(
    ("name", "sets", "level", "in_text", "in_fix"),
    [
        ("cpu_isolation", CpuSets((0, 1, 2), (0, 1, 2, 3), (3,)), Level.OK, "CPU 3 is measured unless", ""),
        ("cpu_isolation", CpuSets((0, 1), (0, 1)), Level.LIMITS, "grants this process only CPU 0-1", "cpuset.cpus"),
        ("cpu_isolation", CpuSets((0,), (0, 1, 2, 3), (3,)), Level.LIMITS, "so CPU 0 is measured", "run -a 3"),
        ("cpus", CpuSets((0,), (0, 1, 2, 3)), Level.LIMITS, "started on CPU 0 alone", "without taskset"),
        ("cpus", CpuSets((0, 1), (0, 1)), Level.OK, "4 online, of which this process may have CPU 0-1", ""),
    ],
)
def test_what_the_isolation_is_worth_depends_on_what_this_process_may_have(
    tmp_path: Path, name: str, sets: CpuSets, level: Level, in_text: str, in_fix: str
) -> None:
    finding = find(examine_state(fabricate(tmp_path), FabricatedAttempts(cpu_sets=sets)), name)
    assert finding.level is level
    assert in_text in finding.text
    assert in_fix in (finding.fix or "")


def test_too_little_memory_blocks(tmp_path: Path) -> None:
    files = fabricate(tmp_path, {"/proc/meminfo": "MemAvailable: 200000 kB"})
    assert find(examine_state(files, FabricatedAttempts()), "free_memory").level is Level.BLOCKS


def test_a_memory_group_that_is_too_small_blocks_and_is_named_and_no_more_is_locked_than_it_holds(
    tmp_path: Path,
) -> None:
    group = {
        "/proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "/sys/fs/cgroup/user.slice/memory.max": str(200 << 20),
        "/sys/fs/cgroup/user.slice/memory.current": str(40 << 20),
    }
    findings = examine_state(fabricate(tmp_path, group), FabricatedAttempts())
    found = find(findings, "free_memory")
    assert found.level is Level.BLOCKS
    assert "/sys/fs/cgroup/user.slice/memory.max" in (found.fix or "")
    assert find(findings, "memory_lock").text == "locked 80 MiB"


def test_a_real_time_group_without_budget_is_named_with_its_file(tmp_path: Path) -> None:
    budget = "/sys/fs/cgroup/cpu,cpuacct/user/cpu.rt_runtime_us"
    files = fabricate(tmp_path, {"/proc/self/cgroup": "4:cpu,cpuacct:/user\n0::/\n", budget: "0"})
    finding = find(examine_state(files, FabricatedAttempts(refused={"sched_fifo": "EPERM"})), "sched_fifo")
    assert finding.level is Level.BLOCKS
    assert budget in (finding.fix or "")


def test_a_kernel_since_6_12_throttles_only_real_time_groups(tmp_path: Path) -> None:
    changes = NEWER_KERNEL | THROTTLED | {"/boot/config-6.18.4-amd64": "# CONFIG_RT_GROUP_SCHED is not set"}
    without_groups = find(examine_state(fabricate(tmp_path / "a", changes), FabricatedAttempts()), "rt_throttling")
    assert without_groups.level is Level.OK
    changes["/boot/config-6.18.4-amd64"] = "CONFIG_RT_GROUP_SCHED=y"
    with_groups = find(examine_state(fabricate(tmp_path / "b", changes), FabricatedAttempts()), "rt_throttling")
    assert with_groups.level is Level.LIMITS


def test_missing_development_programs_are_told_but_are_no_fault(tmp_path: Path) -> None:
    finding = find(
        examine_state(fabricate(tmp_path), FabricatedAttempts(missing_programs=["chromium-headless-shell", "ping"])),
        "development_programs",
    )
    assert finding.level is Level.OK
    assert finding.reading == Value(value=["chromium-headless-shell", "ping"])
    assert "apt-get install --no-install-recommends chromium-headless-shell iputils-ping" in finding.text


def test_a_machine_that_tells_nothing_gives_absent_readings_with_reasons(tmp_path: Path) -> None:
    nothing = dict.fromkeys(WELL_KEPT)
    findings = examine_state(fabricate(tmp_path, nothing), FabricatedAttempts())
    for name in ("tsc", "clocksource", "rt_throttling", "ksm", "smt", "cpu_isolation", "free_memory", "lockdown"):
        reading = find(findings, name).reading
        assert isinstance(reading, Absent), name
        assert "does not exist" in reading.absent
    # Without a stated time-stamp counter there is nothing to measure with; without KSM there is nothing to mend.
    assert find(findings, "tsc").level is Level.BLOCKS
    assert find(findings, "ksm").level is Level.OK
