"""Machines that are not here, for the tests of doctor: kernel files in a folder, and tries with known ends."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stealtime.doctor.attempts import Attempt
from stealtime.doctor.files import Files
from stealtime.doctor.resting_memory import RestedPages
from stealtime.lab.processors import CpuSets

CPU = "/sys/devices/system/cpu"

# A four-core server set up as the real-time guides say: Debian's RT kernel, CPU 3 isolated, everything noisy off.
WELL_KEPT: Mapping[str, str] = {
    "/dev/kvm": "",
    "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc vmx\n\nprocessor\t: 1\n",
    "/proc/cmdline": "root=/dev/sda1 isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3 irqaffinity=0-2\n",
    "/proc/loadavg": "0.10 0.05 0.01 1/200 4242\n",
    "/proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nHugePages_Total: 8\nHugePages_Free: 8\n"
    "Hugepagesize: 2048 kB\n",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "/proc/version": "Linux version 6.1.0-28-rt-amd64 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_RT Debian\n",
    "/proc/self/cgroup": "0::/user.slice\n",
    "/proc/self/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n",
    "/proc/sys/kernel/osrelease": "6.1.0-28-rt-amd64\n",
    "/proc/sys/kernel/sched_rt_runtime_us": "-1\n",
    "/proc/sys/kernel/sched_rt_period_us": "1000000\n",
    "/proc/sys/kernel/soft_watchdog": "0\n",
    "/proc/sys/kernel/nmi_watchdog": "0\n",
    "/proc/sys/kernel/timer_migration": "0\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/proc/sys/kernel/perf_event_paranoid": "1\n",
    "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "/sys/kernel/realtime": "1\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/kernel/mm/ksm/run": "0\n",
    "/sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "/sys/devices/system/node/node0/cpulist": "0-3\n",
    f"{CPU}/online": "0-3\n",
    f"{CPU}/isolated": "3\n",
    f"{CPU}/smt/active": "0\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpuidle/current_driver": "intel_idle\n",
    f"{CPU}/cpu0/cpuidle/state0/name": "POLL\n",
    f"{CPU}/cpu0/cpuidle/state0/latency": "0\n",
    f"{CPU}/cpu0/cpuidle/state0/disable": "0\n",
    f"{CPU}/cpu0/cpuidle/state1/name": "C1\n",
    f"{CPU}/cpu0/cpuidle/state1/latency": "2\n",
    f"{CPU}/cpu0/cpuidle/state1/disable": "0\n",
    f"{CPU}/cpu0/cpuidle/state2/name": "C6\n",
    f"{CPU}/cpu0/cpuidle/state2/latency": "133\n",
    f"{CPU}/cpu0/cpuidle/state2/disable": "1\n",
    "/usr/lib/x86_64-linux-gnu/libc.a": "",
    "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so": "",
}


ISOLATED = CpuSets(inherited=(0, 1, 2), granted=(0, 1, 2, 3), isolated=(3,))
"""What a process on that machine may have."""
RESTED = RestedPages(8_192, [])
"""All were still there."""


def fabricate(root: Path, changes: Mapping[str, str | None] | None = None) -> Files:
    """Write the well-kept machine below ``root``, with other contents of some files; None takes a file away."""
    for path, content in {**WELL_KEPT, **(changes or {})}.items():
        if content is not None:
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    return Files(root)


class FabricatedAttempts:
    """Tries that all succeed, but for those named in ``refused`` with what the kernel says."""

    def __init__(
        self,
        *,
        refused: Mapping[str, str] | None = None,
        missing_programs: Sequence[str] = (),
        free: int = 1 << 40,
        hypervisor_signature: str | None = None,
        cpu_sets: CpuSets = ISOLATED,
        rested: RestedPages = RESTED,
    ) -> None:
        self._rested = rested
        self._cpu_sets = cpu_sets
        self._hypervisor_signature = hypervisor_signature
        self._refused = refused or {}
        self._missing_programs = missing_programs
        self._free_bytes = free

    def hypervisor_signature(self) -> str | None:
        return self._hypervisor_signature

    def cpu_sets(self) -> CpuSets:
        return self._cpu_sets

    def rest_pages(self) -> RestedPages:
        return self._rested

    def sched_fifo(self) -> Attempt:
        return self._try("sched_fifo", "a thread was SCHED_FIFO")

    def realtime_priority_limit(self) -> int:
        return 0

    def lock_memory(self, size_bytes: int) -> Attempt:
        return self._try("lock_memory", f"locked {size_bytes >> 20} MiB")

    def perf_event(self, kind: str) -> Attempt:
        return self._try(kind, "opened")

    def kernel_files(self, kind: str, names: Sequence[str]) -> Attempt:
        contents = {
            "trace_clock": "[local] global x86-tsc",
            "available_tracers": "function nop",
            "set_ftrace_filter": "#### all functions enabled ####",
        }
        return self._try(names[0], contents.get(names[0], "50000000\n50000000"))

    def program(self, name: str) -> Path | None:
        return None if name in self._missing_programs else Path("/usr/bin") / name

    def run(self, argv: Sequence[str]) -> Attempt:
        return self._try(Path(argv[0]).name, "stealtime-agent 0.1.0")

    def free_bytes(self, folder: Path) -> int:
        return self._free_bytes

    def _try(self, name: str, success: str) -> Attempt:
        if name in self._refused:
            return Attempt(succeeded=False, text=self._refused[name])
        return Attempt(succeeded=True, text=success)
