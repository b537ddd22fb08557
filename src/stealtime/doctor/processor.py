"""The CPUs: how many, what else is allowed on them, and what changes their speed."""

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Level, Subject
from stealtime.vocabulary.cpu_lists import format_cpus, parse_cpu_list
from stealtime.vocabulary.readings import Absent

CPU_FOLDER = "/sys/devices/system/cpu"
ISOLATING_ARGUMENTS = ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity")
SHALLOW_IDLE_US = 10
"""Leaving an idle state may cost this much before doctor speaks of it: C1 is 1-2 us, C6 is 100 us and more."""

CPUS = Subject(
    "cpus",
    Group.PROCESSOR,
    "CPUs",
    "The measured CPU is left alone; the control plane, emulator threads and trace readers need another one.",
)
ISOLATION = Subject(
    "cpu_isolation",
    Group.PROCESSOR,
    "CPU isolation",
    "Without it the kernel's own work (interrupts, RCU callbacks, the tick, other tasks) runs on the measured CPU.",
)
GOVERNOR = Subject(
    "cpu_governor",
    Group.PROCESSOR,
    "frequency governor",
    "While the frequency changes, the same loop takes a different time, and the change itself stops the CPU.",
)
TURBO = Subject(
    "cpu_turbo",
    Group.PROCESSOR,
    "turbo",
    "With it the floor depends on how many other cores are busy and how warm they are.",
)
SMT = Subject(
    "smt",
    Group.PROCESSOR,
    "sibling threads",
    "A busy sibling takes up to half of the core: durations change with what runs there.",
)
IDLE_STATES = Subject(
    "idle_states",
    Group.PROCESSOR,
    "idle states",
    "A wake-up from a deep idle state is late by the state's exit latency, before the kernel does anything.",
)


def online_cpus(files: Files) -> list[int]:
    """The CPUs that run now; empty if the kernel does not say."""
    text = files.text(f"{CPU_FOLDER}/online")
    return [] if isinstance(text, Absent) else parse_cpu_list(text)


def cpus(files: Files, attempts: Attempts) -> Finding:
    """Whether the control plane can stay away from the measured CPU."""
    online, sets = online_cpus(files), attempts.cpu_sets()
    value: Data = {"online": online, "granted": list(sets.granted), "inherited": list(sets.inherited)}
    text = f"{len(online)} online"
    if len(sets.granted) < len(online):
        text += f", of which this process may have CPU {format_cpus(sets.granted)} (its cpuset)"
    if sets.inherited != sets.granted and not sets.is_confined_by_the_kernel:
        text += f"; started on CPU {format_cpus(sets.inherited)} alone (taskset?), so only a named one is another"
    if len(online) > 1 and len(sets.usable) > 1:
        return CPUS.ok(text, value)
    return CPUS.limits(
        f"{text}: the control plane shares the measured CPU",
        value,
        "measure on a machine with two CPUs or more"
        if min(len(online), len(sets.granted)) < 2
        else "start it without taskset",
    )


def isolation(files: Files, attempts: Attempts) -> Finding:
    """The CPUs that the kernel command line isolates, and whether a measurement will use them."""
    command_line = files.text("/proc/cmdline")
    if isinstance(command_line, Absent):
        return ISOLATION.absent(Level.LIMITS, command_line)
    arguments = dict(word.partition("=")[::2] for word in command_line.split())
    given = {name: arguments[name] for name in ISOLATING_ARGUMENTS if name in arguments}
    isolated = files.text(f"{CPU_FOLDER}/isolated")
    isolated_cpus = [] if isinstance(isolated, Absent) else parse_cpu_list(isolated)
    sets = attempts.cpu_sets()
    taken = sets.preferred[-1]
    value: Data = {"isolated": isolated_cpus, "boot_arguments": given, "measured_by_default": taken}
    if isolated_cpus and not set(isolated_cpus) & set(sets.granted):
        return ISOLATION.limits(
            f"CPU {isolated} isolated, but the kernel grants this process only CPU {format_cpus(sets.granted)}",
            value,
            "run it outside of the container or cpuset, or give that the CPU (cpuset.cpus)",
        )
    if isolated_cpus and taken not in isolated_cpus:
        named = max(set(isolated_cpus) & set(sets.granted))
        return ISOLATION.limits(
            f"CPU {isolated} isolated, but this process was started on CPU {format_cpus(sets.inherited)} alone "
            f"(taskset?), so CPU {taken} is measured",
            value,
            f"start it without taskset, or name the CPU: stealtime run -a {named}",
        )
    if isolated_cpus and len(given) == len(ISOLATING_ARGUMENTS):
        text = f"CPU {isolated} isolated, with {', '.join(given)}; CPU {taken} is measured unless another is named"
        return ISOLATION.ok(text, value)
    online = online_cpus(files)
    measured, kept = (online[-1], f"0-{online[-2]}" if len(online) > 2 else "0") if len(online) > 1 else (0, "0")
    fix = (
        f"add to GRUB_CMDLINE_LINUX in /etc/default/grub, then run update-grub and boot: "
        f"isolcpus=managed_irq,domain,{measured} nohz_full={measured} rcu_nocbs={measured} irqaffinity={kept}"
    )
    missing = ", ".join(name for name in ISOLATING_ARGUMENTS if name not in given)
    text = f"CPU {isolated} isolated, but without {missing}" if isolated_cpus else "no CPU is isolated"
    return ISOLATION.limits(text, value, fix if len(online) > 1 else None)


def governor(files: Files) -> Finding:
    """What chooses the frequency of each CPU."""
    paths = files.matching(f"{CPU_FOLDER}/cpu[0-9]*/cpufreq/scaling_governor")
    read = [files.text(path) for path in paths]
    governors = sorted({name for name in read if isinstance(name, str)})
    if not governors:
        reason = Absent(absent="this kernel has no frequency scaling here: the firmware or the hypervisor decides")
        return GOVERNOR.absent(Level.OK, reason)
    if governors == ["performance"]:
        return GOVERNOR.ok(f"performance on all {len(paths)} CPUs", governors)
    return GOVERNOR.limits(
        f"{', '.join(governors)} instead of performance",
        governors,
        f"for f in {CPU_FOLDER}/cpu*/cpufreq/scaling_governor; do echo performance > $f; done",
    )


def turbo(files: Files) -> Finding:
    """Whether a CPU may run faster than its stated frequency."""
    no_turbo = files.number(f"{CPU_FOLDER}/intel_pstate/no_turbo")
    boost = files.number(f"{CPU_FOLDER}/cpufreq/boost")
    if isinstance(no_turbo, int):
        on, fix = no_turbo == 0, f"echo 1 > {CPU_FOLDER}/intel_pstate/no_turbo"
    elif isinstance(boost, int):
        on, fix = boost == 1, f"echo 0 > {CPU_FOLDER}/cpufreq/boost"
    else:
        return TURBO.absent(Level.OK, Absent(absent="this kernel cannot tell: neither intel_pstate nor cpufreq/boost"))
    return TURBO.limits("on", value=True, fix=fix) if on else TURBO.ok("off", value=False)


def smt(files: Files) -> Finding:
    """Which CPUs share a core."""
    active = files.number(f"{CPU_FOLDER}/smt/active")
    if isinstance(active, Absent):
        return SMT.absent(Level.LIMITS, active)
    if active == 0:
        return SMT.ok("none: each CPU has a core of its own, as far as this kernel knows", {"active": False})
    read = [files.text(path) for path in files.matching(f"{CPU_FOLDER}/cpu[0-9]*/topology/thread_siblings_list")]
    siblings = list(dict.fromkeys(text for text in read if isinstance(text, str)))
    return SMT.limits(
        f"these CPUs share a core: {'; '.join(siblings)}",
        {"active": True, "siblings": [parse_cpu_list(text) for text in siblings]},
        f"echo off > {CPU_FOLDER}/smt/control, or leave the sibling of the measured CPU idle",
    )


def idle_states(files: Files) -> Finding:
    """How long the deepest idle state in use takes to leave."""
    driver = files.text(f"{CPU_FOLDER}/cpuidle/current_driver")
    driver_name = driver if isinstance(driver, str) else "none"
    exit_us: dict[str, int] = {}
    for folder in files.matching(f"{CPU_FOLDER}/cpu0/cpuidle/state*"):
        name, latency_us = files.text(f"{folder}/name"), files.number(f"{folder}/latency")
        if isinstance(name, str) and isinstance(latency_us, int) and files.number(f"{folder}/disable") != 1:
            exit_us[name] = latency_us
    if not exit_us:
        reason = Absent(absent=f"the kernel lists no idle states (driver {driver_name})")
        return IDLE_STATES.absent(Level.OK, reason)
    deepest, latency_us = max(exit_us.items(), key=lambda item: item[1])
    value: Data = {"driver": driver_name, "exit_latency_us": exit_us}
    text = f"{deepest} is the deepest in use, left within {latency_us} us (driver {driver_name})"
    if latency_us <= SHALLOW_IDLE_US:
        return IDLE_STATES.ok(text, value)
    return IDLE_STATES.limits(
        text,
        value,
        f"hold /dev/cpu_dma_latency open with the value 0, or cpupower idle-set --disable-by-latency {SHALLOW_IDLE_US}",
    )
