"""The time-stamp counter, which every sample is counted in."""

import re

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Level, Subject
from stealtime.lab.platforms.below import EMULATED, EMULATED_SIGNATURE
from stealtime.vocabulary.readings import Absent

CLOCKSOURCE_FOLDER = "/sys/devices/system/clocksource/clocksource0"

TSC = Subject(
    "tsc",
    Group.CLOCK,
    "time-stamp counter",
    "Samples are counted in cycles of the time-stamp counter: it must run at one rate, whatever the CPU's frequency "
    "and idle state, or durations cannot be told from changes of the clock.",
)
CLOCKSOURCE = Subject(
    "clocksource",
    Group.CLOCK,
    "clocksource",
    "The kernel keeps time with it. If it has switched away from tsc, it found that counter unreliable, and each "
    "reading of another clock costs a system call or a VM exit.",
)
HYPERVISOR = Subject(
    "hypervisor",
    Group.CLOCK,
    "bare metal",
    "Under a hypervisor, 'native' means without our virtual machine, not without any: the steal time that it causes is "
    "in every result.",
)


def cpu_flags(files: Files) -> frozenset[str] | Absent:
    """The feature flags of the first CPU."""
    text = files.text("/proc/cpuinfo")
    if isinstance(text, Absent):
        return text
    flags = re.search(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(flags[1].split()) if flags else Absent(absent="/proc/cpuinfo has no line 'flags': not an x86 CPU")


def tsc(files: Files) -> Finding:
    """Whether the counter has one rate (``constant_tsc``) and goes on in deep idle states (``nonstop_tsc``)."""
    flags = cpu_flags(files)
    if isinstance(flags, Absent):
        return TSC.absent(Level.BLOCKS, flags, "measure on an x86-64 machine; the agent is built for no other")
    have: dict[str, bool] = {flag: flag in flags for flag in ("constant_tsc", "nonstop_tsc", "tsc_known_freq")}
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if not have[flag]]
    if missing:
        return TSC.limits(
            f"the CPU does not state {' and '.join(missing)}",
            {**have},
            "in a virtual machine pass the flag through (QEMU: -cpu host,+invtsc); a CPU from before 2008 cannot",
        )
    return TSC.ok("constant_tsc and nonstop_tsc: one rate, also in idle states", {**have})


def clocksource(files: Files) -> Finding:
    """Whether the kernel itself trusts the counter."""
    current = files.text(f"{CLOCKSOURCE_FOLDER}/current_clocksource")
    if isinstance(current, Absent):
        return CLOCKSOURCE.absent(Level.LIMITS, current)
    listed = files.text(f"{CLOCKSOURCE_FOLDER}/available_clocksource")
    available = [] if isinstance(listed, Absent) else listed.split()
    value: Data = {"current": current, "available": available}
    if current == "tsc":
        return CLOCKSOURCE.ok("tsc", value)
    if "tsc" in available:
        fix = f"echo tsc > {CLOCKSOURCE_FOLDER}/current_clocksource"
    else:
        fix = "see why the kernel rejected tsc: dmesg | grep -i tsc; if the hardware is sound, boot with tsc=reliable"
    return CLOCKSOURCE.limits(f"{current} instead of tsc (available: {' '.join(available)})", value, fix)


def hypervisor(files: Files, attempts: Attempts) -> Finding:
    """Whether this machine is itself a guest, and whose."""
    flags = cpu_flags(files)
    if isinstance(flags, Absent):
        return HYPERVISOR.absent(Level.LIMITS, flags)
    if "hypervisor" not in flags:
        return HYPERVISOR.ok("no hypervisor below this kernel", value=False)
    if attempts.hypervisor_signature() == EMULATED_SIGNATURE:
        return HYPERVISOR.limits(EMULATED, value=True, fix="measure on a machine that is not emulated")
    vendor = files.text("/sys/class/dmi/id/sys_vendor")
    by = "" if isinstance(vendor, Absent) else f" of {vendor}"
    return HYPERVISOR.limits(
        f"this machine is a guest{by}: the CPU flag 'hypervisor' is set",
        value=True,
        fix="for absolute figures measure on a physical machine; ratios between platforms remain valid",
    )
