"""Facts about the host for the manifest, each a value or absent with a reason."""

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import stealtime
from stealtime._core import hypervisor_signature
from stealtime.lab.platforms.shown_ids import threads_of
from stealtime.lab.scenarios.cpus import allowed_cpus, format_cpus
from stealtime.store.model import ThreadRecord
from stealtime.vocabulary.readings import Absent, Facts, Reading, Value

_CPU_FOLDER = Path("/sys/devices/system/cpu")
_PROGRAM_TIMEOUT_S = 5.0


def read_host_facts(measured_cpu: int) -> Facts:
    """Read what a reader of the results must know about this host.

    Args:
        measured_cpu: The CPU whose frequency governor is read.

    What the agent of every machine reads too (``crates/probe/src/facts.rs``) has the same name, so that host and
    machine stand side by side.
    """
    frequency = _CPU_FOLDER / f"cpu{measured_cpu}" / "cpufreq"
    return {
        "operating_system": _fact(lambda: platform.freedesktop_os_release()["PRETTY_NAME"]),
        "kernel_release": Value(value=platform.release()),
        "kernel_version": Value(value=platform.version()),
        "kernel_command_line": _file(Path("/proc/cmdline")),
        "cpu_model": _fact(lambda: _cpu_info("model name")),
        **{flag: _cpu_flag(flag) for flag in ("constant_tsc", "nonstop_tsc", "hypervisor")},
        "hypervisor_signature": _signature(),
        "cpus_allowed": Value(value=format_cpus(allowed_cpus())),
        "cpus_online": _file(_CPU_FOLDER / "online"),
        "cpus_isolated": _file(_CPU_FOLDER / "isolated"),
        "measured_cpu": Value(value=measured_cpu),
        "smt": _file(_CPU_FOLDER / "smt" / "control"),
        "frequency_governor": _file(frequency / "scaling_governor"),
        "frequency_driver": _file(frequency / "scaling_driver"),
        "clocksource": _file(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "sched_rt_period_us": _number(Path("/proc/sys/kernel/sched_rt_period_us")),
        "sched_rt_runtime_us": _number(Path("/proc/sys/kernel/sched_rt_runtime_us")),
        "memory_total_bytes": _fact(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "ksm": _file(Path("/sys/kernel/mm/ksm/run")),
        "user_id": Value(value=os.geteuid()),
        "python_version": Value(value=platform.python_version()),
        "qemu_version": _program("qemu-system-x86_64", "--version"),
    }


def _signature() -> Reading:
    signature = hypervisor_signature()
    return Absent(absent="the CPU reports no hypervisor") if signature is None else Value(value=signature)


def read_load() -> Reading:
    """Read how busy the host is: the load average of the last minute."""
    return _fact(lambda: round(os.getloadavg()[0], 2))


def read_git_describe() -> Reading:
    """Tell which commit this stealtime is, if it runs from a git work tree."""
    source = Path(stealtime.__file__).parents[2]
    if not (source / ".git").exists():
        return Absent(absent="installed from a package, not run from a git work tree")
    return _program("git", "-C", str(source), "describe", "--always", "--dirty", "--tags")


def pin_control_plane(cpus: tuple[int, ...]) -> list[ThreadRecord]:
    """Keep every thread of this process on ``cpus``; threads that are started later inherit it.

    Returns:
        The threads and the CPUs they may run on, read back from the kernel.

    Raises:
        OSError: A CPU does not exist or may not be used.
    """
    threads = []
    for entry, thread_id in threads_of("self"):
        try:
            os.sched_setaffinity(thread_id, cpus)
            allowed = sorted(os.sched_getaffinity(thread_id))
            name = (entry / "comm").read_text().strip()
        except (ProcessLookupError, FileNotFoundError):
            continue
        threads.append(ThreadRecord(role="control", name=name, tid=int(entry.name), cpus=allowed))
    return threads


def _fact(read: Callable[[], str | int | float | bool]) -> Reading:
    try:
        return Value(value=read())
    except (OSError, ValueError, KeyError) as error:
        return Absent(absent=f"{type(error).__name__}: {error}")


def _file(path: Path) -> Reading:
    try:
        return Value(value=path.read_text().strip())
    except OSError as error:
        return Absent(absent=f"{path}: {error.strerror}")


def _number(path: Path) -> Reading:
    reading = _file(path)
    return _fact(lambda: int(str(reading.value))) if isinstance(reading, Value) else reading


def _cpu_flag(flag: str) -> Reading:
    return _fact(lambda: flag in _cpu_info("flags").split())


def _cpu_info(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    raise KeyError(f"/proc/cpuinfo has no {key!r}")


def _program(*argv: str) -> Reading:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=_PROGRAM_TIMEOUT_S, check=True)
    except FileNotFoundError:
        return Absent(absent=f"{argv[0]} is not installed")
    except (OSError, subprocess.SubprocessError) as error:
        return Absent(absent=f"{argv[0]}: {error}")
    return Value(value=result.stdout.strip().partition("\n")[0])
