"""What the host's scheduler does to a real-time task: permission, throttling, watchdogs, the kernel's preemption."""

import re
from collections.abc import Sequence

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Level, Subject
from stealtime.lab.platforms.cgroup import find_hierarchy
from stealtime.lab.platforms.quotas import group_of, quotas_above
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent

SCHED_FIFO = Subject(
    "sched_fifo",
    Group.SCHEDULING,
    "real-time priority",
    "Probes run as SCHED_FIFO; without it every other task of the CPU takes turns with the probe, and the result is "
    "the host's load instead of its latency.",
)
RT_THROTTLING = Subject(
    "rt_throttling",
    Group.SCHEDULING,
    "real-time throttling",
    "A real-time loop that fills its CPU is stopped for the rest of each period: the longest 'tick' is then the "
    "throttle and nothing else.",
)
FAIR_SERVER = Subject(
    "fair_server",
    Group.SCHEDULING,
    "fair server",
    "Since Linux 6.12 a deadline server runs starving ordinary tasks in place of a real-time loop (kernel commit "
    "557a6bfc662c), so the loop loses its CPU for that long whenever something ordinary waits there.",
)
CPU_QUOTA = Subject(
    "cpu_quota",
    Group.SCHEDULING,
    "CPU quota",
    "A group that has used up its quota is stopped until the next period begins: what is measured in it, or in a guest "
    "started from it, then shows long stalls at regular times. SCHED_FIFO threads are not bound.",
)
PREEMPTION = Subject(
    "preemption",
    Group.SCHEDULING,
    "kernel preemption",
    "A guest's latency is never lower than that of the host kernel that schedules it; only PREEMPT_RT bounds it.",
)
WATCHDOGS = Subject(
    "watchdogs",
    Group.SCHEDULING,
    "lockup watchdogs",
    "They interrupt every CPU, the measured one too: a timer and a thread of the highest priority every few seconds, "
    "and an NMI that nothing can mask.",
)
TIMER_MIGRATION = Subject(
    "timer_migration",
    Group.SCHEDULING,
    "timer migration",
    "Timers of idle CPUs are run by busy ones, and the measured CPU is always busy.",
)
LOAD = Subject(
    "load",
    Group.SCHEDULING,
    "other load",
    "Other tasks share caches, memory and the hypervisor's attention with the measured CPU, real-time priority or not.",
)


def sched_fifo(files: Files, attempts: Attempts) -> Finding:
    """Whether a thread of this process really becomes SCHED_FIFO."""
    attempt = attempts.sched_fifo()
    limit = attempts.realtime_priority_limit()
    group = _cgroup_runtime(files)
    runtime_us = group[1] if group else None
    value: Data = {"granted": attempt.succeeded, "rlimit_rtprio": limit, "cgroup_rt_runtime_us": runtime_us}
    if attempt.succeeded:
        return SCHED_FIFO.ok(f"granted ({attempt.text})", value)
    if group is not None and runtime_us == 0:
        return SCHED_FIFO.blocks(
            f"refused ({attempt.text}): the cgroup has cpu.rt_runtime_us = 0",
            value,
            f"echo 950000 > {group[0]}   # the groups above it first",
        )
    return SCHED_FIFO.blocks(
        f"refused ({attempt.text}): RLIMIT_RTPRIO is {limit} and the capability CAP_SYS_NICE is missing",
        value,
        'echo "$USER - rtprio 99" | sudo tee /etc/security/limits.d/stealtime.conf, then log in anew; or run with sudo',
    )


def rt_throttling(files: Files) -> Finding:
    """How much of each period a real-time task may have."""
    runtime_us = files.number("/proc/sys/kernel/sched_rt_runtime_us")
    period_us = files.number("/proc/sys/kernel/sched_rt_period_us")
    if isinstance(runtime_us, Absent):
        return RT_THROTTLING.absent(Level.LIMITS, runtime_us)
    if isinstance(period_us, Absent):
        return RT_THROTTLING.absent(Level.LIMITS, period_us)
    group = _cgroup_runtime(files)
    value: Data = {"runtime_us": runtime_us, "period_us": period_us, "rt_group_sched": group is not None}
    if runtime_us == -1 or runtime_us >= period_us:
        return RT_THROTTLING.ok(f"none: sched_rt_runtime_us is {runtime_us}", value)
    release = _kernel_version(files)
    if release is not None and release >= (6, 12) and group is None and _built_without_group_scheduling(files):
        # Kernel commit 5f6bd380c7bd ("sched/rt: Remove default bandwidth control").
        return RT_THROTTLING.ok("none: since Linux 6.12 only with RT_GROUP_SCHED; see the fair server", value)
    return RT_THROTTLING.limits(
        f"stopped for {(period_us - runtime_us) / 1000:g} ms of every {period_us / 1000:g} ms "
        f"(sched_rt_runtime_us is {runtime_us})",
        value,
        "stealtime run --lift-rt-throttling, which puts it back; or sysctl -w kernel.sched_rt_runtime_us=-1",
    )


def fair_server(files: Files, attempts: Attempts, online_cpus: Sequence[int]) -> Finding:
    """How much the fair server takes from a real-time task that starves ordinary ones."""
    release = _kernel_version(files)
    if release is not None and release < (6, 12):
        return FAIR_SERVER.ok(f"Linux {release[0]}.{release[1]} has none", value=None)
    if not online_cpus:
        return FAIR_SERVER.absent(Level.LIMITS, Absent(absent="the kernel does not say which CPUs are online"))
    read = attempts.kernel_files("debugfs", [f"sched/fair_server/cpu{cpu}/runtime" for cpu in online_cpus])
    if not read.succeeded:
        absent = Absent(absent=f"debugfs sched/fair_server cannot be read: {read.text.splitlines()[0]}")
        return FAIR_SERVER.absent(Level.LIMITS, absent, read.hint)
    longest_ns = max(int(runtime_ns) for runtime_ns in read.text.split())
    if longest_ns == 0:
        return FAIR_SERVER.ok("off on every CPU", {"longest_runtime_ns": 0})
    return FAIR_SERVER.limits(
        f"starving ordinary tasks get up to {longest_ns / 1e6:g} ms of each period",
        {"longest_runtime_ns": longest_ns},
        "for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 > $f; done   # debugfs mounted",
    )


def cpu_quota(files: Files) -> Finding:
    """Whether this process, and with it what it starts, has a CPU quota: of its own group or of one above."""
    groups = files.text("/proc/self/cgroup")
    if isinstance(groups, Absent):
        return CPU_QUOTA.absent(Level.LIMITS, groups)
    try:
        hierarchy = find_hierarchy(files.path("/proc/self/mounts"), files.path("/"))
    except StealtimeError:
        return CPU_QUOTA.ok("none: no cgroup hierarchy here has the cpu controller", [])
    except OSError as error:
        return CPU_QUOTA.absent(Level.LIMITS, Absent(absent=f"/proc/self/mounts cannot be read: {error.strerror}"))
    group = group_of(groups, hierarchy)
    quotas = quotas_above(group, hierarchy) if group is not None else []
    folders = [f"/{quota.group.relative_to(files.path('/'))}" for quota in quotas]
    value: Data = [
        {"group": folder, "quota_us": quota.quota_us, "period_us": quota.period_us}
        for folder, quota in zip(folders, quotas, strict=True)
    ]
    if not quotas:
        return CPU_QUOTA.ok("none", value)
    quota, folder = min(zip(quotas, folders, strict=True), key=lambda one: one[0].cpus)
    lift = f"echo max > {folder}/cpu.max" if hierarchy.version == 2 else f"echo -1 > {folder}/cpu.cfs_quota_us"
    return CPU_QUOTA.limits(
        f"{quota.quota_us / 1e3:g} ms of CPU time in every {quota.period_us / 1e3:g} ms ({folder})",
        value,
        f"{lift}   # it was set by CPUQuota= of systemd or --cpus of docker, if not by hand",
    )


def preemption(files: Files) -> Finding:
    """How the running kernel preempts itself."""
    version = files.text("/proc/version")
    if isinstance(version, Absent):
        return PREEMPTION.absent(Level.LIMITS, version)
    model = re.search(r"PREEMPT\w*", version)
    name = model[0] if model else "no preemption"
    if files.text("/sys/kernel/realtime") == "1" or name == "PREEMPT_RT":
        return PREEMPTION.ok("PREEMPT_RT", "PREEMPT_RT")
    return PREEMPTION.limits(f"{name}, not PREEMPT_RT", name, "apt-get install linux-image-rt-amd64, and boot it")


def watchdogs(files: Files) -> Finding:
    """Whether the soft and hard lockup detectors run."""
    soft = files.number("/proc/sys/kernel/soft_watchdog")
    hard = files.number("/proc/sys/kernel/nmi_watchdog")
    value: Data = {"soft": soft == 1, "nmi": hard == 1}
    running = [name for name, state in (("soft", soft), ("nmi", hard)) if state == 1]
    if not running:
        return WATCHDOGS.ok("none runs", value)
    return WATCHDOGS.limits(f"running: {' and '.join(running)}", value, "sysctl -w kernel.watchdog=0")


def timer_migration(files: Files) -> Finding:
    """Whether timers move to busy CPUs."""
    migrates = files.number("/proc/sys/kernel/timer_migration")
    if isinstance(migrates, Absent):
        return TIMER_MIGRATION.absent(Level.OK, migrates)
    if migrates == 0:
        return TIMER_MIGRATION.ok("off", value=False)
    return TIMER_MIGRATION.limits("on", value=True, fix="sysctl -w kernel.timer_migration=0")


def load(files: Files, cpu_count: int) -> Finding:
    """How busy the machine has been during the last minute."""
    text = files.text("/proc/loadavg")
    if isinstance(text, Absent):
        return LOAD.absent(Level.LIMITS, text)
    average = float(text.split()[0])
    value: Data = {"load_average_1min": average, "online_cpus": cpu_count}
    sentence = f"{average:.2f} tasks ran or waited on average in the last minute, on {cpu_count} CPUs"
    # One task in two CPUs' time: a desktop at rest is below, a build is above.
    if average <= cpu_count / 2:
        return LOAD.ok(sentence, value)
    return LOAD.limits(sentence, value, "see what runs: top -o %CPU")


def _kernel_version(files: Files) -> tuple[int, int] | None:
    release = files.text("/proc/sys/kernel/osrelease")
    version = None if isinstance(release, Absent) else re.match(r"(\d+)\.(\d+)", release)
    return (int(version[1]), int(version[2])) if version else None


def _built_without_group_scheduling(files: Files) -> bool:
    """Whether Debian's copy of the kernel's configuration says so; False where there is none."""
    config = files.text(f"/boot/config-{files.text('/proc/sys/kernel/osrelease')}")
    return isinstance(config, str) and "CONFIG_RT_GROUP_SCHED=y" not in config


def _cgroup_runtime(files: Files) -> tuple[str, int] | None:
    """The real-time budget of this process's group (RT_GROUP_SCHED, cgroup v1 only) and the file that sets it."""
    text = files.text("/proc/self/cgroup")
    if isinstance(text, Absent):
        return None
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        if "cpu" not in controllers.split(","):
            continue
        for mount in (controllers, "cpu", "cpu,cpuacct"):
            path = f"/sys/fs/cgroup/{mount}{group.rstrip('/')}/cpu.rt_runtime_us"
            runtime_us = files.number(path)
            if isinstance(runtime_us, int):
                return path, runtime_us
    return None
