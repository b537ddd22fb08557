"""What the host can tell about a spike: kernel events, performance counters, control groups."""

from stealtime.doctor.attempts import PERF_TYPES, Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Level, Subject
from stealtime.vocabulary.readings import Absent

TRACEFS = Subject(
    "tracefs",
    Group.TRACING,
    "kernel events (tracefs)",
    "Spikes are attributed with the kernel's own events, on the same time-stamp counter as the samples.",
)
FUNCTION_TRACER = Subject(
    "function_tracer",
    Group.TRACING,
    "function tracer",
    "Names the kernel function behind a spike where no event does.",
)
PERF = Subject(
    "perf",
    Group.TRACING,
    "performance counters",
    "Cycles and instructions tell time that was stolen from time that was slow.",
)
LOCKDOWN = Subject(
    "lockdown",
    Group.TRACING,
    "kernel lockdown",
    "A locked-down kernel refuses kernel probes, some tracing and model-specific registers, also to root.",
)
CGROUPS = Subject(
    "cgroups",
    Group.TRACING,
    "control groups",
    "Shares and bandwidth limits of scenarios are set with the controller cpu, placement with cpuset.",
)


def tracefs(files: Files, attempts: Attempts) -> Finding:
    """Whether kernel events can be read with the x86-tsc clock."""
    mounted = _is_mounted(files, "tracefs")
    clocks = attempts.kernel_files("tracefs", ["trace_clock"])
    value: Data = {"mounted": mounted, "clocks": clocks.text.split() if clocks.succeeded else None}
    if not clocks.succeeded:
        fix = clocks.hint or "boot a kernel with CONFIG_FTRACE, such as Debian's"
        return TRACEFS.limits(f"cannot be read: {clocks.text}", value, fix)
    if "x86-tsc" not in clocks.text.replace("[", "").replace("]", "").split():
        return TRACEFS.limits(f"has no clock x86-tsc ({clocks.text})", value, "boot an x86-64 kernel, 3.13 or newer")
    if not mounted:
        return TRACEFS.limits(
            "works with the clock x86-tsc, but is not mounted",
            value,
            "mount -t tracefs tracefs /sys/kernel/tracing",
        )
    return TRACEFS.ok("mounted, readable, with the clock x86-tsc", value)


def function_tracer(attempts: Attempts) -> Finding:
    """Whether the kernel offers the function tracer, and its filter can be read: some hosts refuse that to root."""
    tracers = attempts.kernel_files("tracefs", ["available_tracers"])
    if not tracers.succeeded:
        absent = Absent(absent=f"available_tracers cannot be read: {tracers.text}")
        return FUNCTION_TRACER.absent(Level.LIMITS, absent, tracers.hint)
    offered = tracers.text.split()
    fix = "boot a kernel with CONFIG_FUNCTION_TRACER, such as Debian's"
    if "function" not in offered:
        return FUNCTION_TRACER.limits(f"not offered by this kernel (tracers: {', '.join(offered)})", offered, fix)
    filters = attempts.kernel_files("tracefs", ["set_ftrace_filter"])
    if not filters.succeeded:
        return FUNCTION_TRACER.limits(f"offered, but refused: {filters.text}", offered, filters.hint or fix)
    return FUNCTION_TRACER.ok("offered, and its filter can be read", offered)


def perf(files: Files, attempts: Attempts) -> Finding:
    """Which counters can really be opened."""
    paranoid = files.number("/proc/sys/kernel/perf_event_paranoid")
    tried = {kind: attempts.perf_event(kind) for kind in PERF_TYPES}
    value: Data = {
        "perf_event_paranoid": paranoid if isinstance(paranoid, int) else None,
        **{kind: attempt.succeeded for kind, attempt in tried.items()},
    }
    level = f"perf_event_paranoid is {paranoid}" if isinstance(paranoid, int) else paranoid.absent
    if tried["hardware"].succeeded:
        return PERF.ok(f"hardware counters open ({level})", value)
    if tried["software"].succeeded:
        return PERF.limits(
            f"only software counters open; hardware: {tried['hardware'].text} ({level})",
            value,
            "in a virtual machine give it a performance monitoring unit (QEMU: -cpu host,pmu=on)",
        )
    return PERF.limits(f"refused: {tried['software'].text} ({level})", value, "sysctl -w kernel.perf_event_paranoid=1")


def lockdown(files: Files) -> Finding:
    """Whether the kernel is locked down, and how far."""
    text = files.text("/sys/kernel/security/lockdown")
    if isinstance(text, Absent):
        return LOCKDOWN.absent(Level.OK, text)
    mode = text.partition("[")[2].partition("]")[0]
    if mode == "none":
        return LOCKDOWN.ok("none", mode)
    return LOCKDOWN.limits(mode, mode, "turn Secure Boot off in the firmware, or do without the refused probes")


def cgroups(files: Files) -> Finding:
    """Which version, which controllers, and whether groups can be made."""
    text = files.text("/proc/self/mounts")
    if isinstance(text, Absent):
        return CGROUPS.absent(Level.LIMITS, text)
    mounts = [fields for line in text.splitlines() if len(fields := line.split()) >= 4]
    first = {fields[1]: fields[3].split(",") for fields in mounts if fields[2] == "cgroup"}
    second = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    kind = {(True, True): "hybrid", (True, False): "v1", (False, True): "v2"}.get((bool(first), bool(second)))
    if kind is None:
        return CGROUPS.limits("none are mounted", None, "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    folders: dict[str, str] = {}
    for folder in second:
        listed = files.text(f"{folder}/cgroup.controllers")
        folders |= dict.fromkeys(listed.split() if isinstance(listed, str) else [], folder)
    folders |= {name: folder for folder, options in first.items() for name in options if name in ("cpu", "cpuset")}
    writable: dict[str, bool] = {name: files.writable(folders[name]) for name in ("cpu", "cpuset") if name in folders}
    value: Data = {"version": kind, "controllers": sorted(folders), "writable": writable}
    missing = [name for name in ("cpu", "cpuset") if name not in folders]
    if missing:
        fix = "mount the controller, or remove cgroup_disable= from the kernel's command line"
        return CGROUPS.limits(f"{kind}, without the controller {' and '.join(missing)}", value, fix)
    refused = [name for name, allowed in writable.items() if not allowed]
    if refused:
        fix = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes stealtime run"
        return CGROUPS.limits(f"{kind}, but {' and '.join(refused)} is not writable for this user", value, fix)
    return CGROUPS.ok(f"{kind}, cpu and cpuset can be written", value)


def _is_mounted(files: Files, kind: str) -> bool:
    text = files.text("/proc/self/mounts")
    return isinstance(text, str) and any(line.split()[2:3] == [kind] for line in text.splitlines())
