"""A host as an object: its CPUs, the platforms that boot on it, what records it, and what it says about itself.

Each fact is a value or absent with a reason.
"""

import asyncio
import os
import platform
import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import stealtime
from stealtime._core import hypervisor_signature
from stealtime.lab.exclusivity import read_exclusivity
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.leftovers import clear_leftovers
from stealtime.lab.platforms.model import Platform
from stealtime.lab.platforms.shown_ids import threads_of
from stealtime.lab.platforms.traits import NATIVE
from stealtime.lab.processors import CPU_FOLDER, CpuSets, read_cpu_sets
from stealtime.lab.tracing.host import HostTracer, host_tracer
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Facts, Reading, Value

_PROGRAM_TIMEOUT_S = 5.0
_RESTORE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class LocalHost:
    """The host that this process runs on: machines, their CPU groups and the traces of its kernel are made on it."""

    name: str = "local"
    """As the manifest and each trial name it."""

    @property
    def cpu_sets(self) -> CpuSets:
        return read_cpu_sets()

    @property
    def cpus(self) -> tuple[int, ...]:
        """Those that a run uses unless others are named."""
        return self.cpu_sets.usable

    def platforms(self) -> dict[str, Platform]:
        """Give what boots on it, by name; what is reached over ssh must be asked for with :meth:`platform`."""
        return {one.name: one for one in registry.all_platforms()}

    def platform(self, name: str) -> Platform:
        """Give one platform, also one over ssh.

        Raises:
            UsageError: There is none of that name.
        """
        return registry.find(name)

    def tracer(self, folder: Path, housekeeping_cpus: tuple[int, ...]) -> AbstractAsyncContextManager[HostTracer]:
        """Start the agent that records its kernel; see :func:`stealtime.lab.tracing.host.host_tracer`."""
        return host_tracer(folder, housekeeping_cpus, self.platform(NATIVE))

    def read_facts(self, measured_cpu: int) -> Facts:
        """Read what a reader of the results must know about it; see :func:`read_host_facts`."""
        return read_host_facts(measured_cpu)

    def read_load(self) -> Reading:
        return _fact(lambda: round(os.getloadavg()[0], 2))

    async def put_right(self) -> None:
        """End guests of dead control planes and put back RT throttling that a killed agent had lifted.

        Raises:
            StealtimeError: The agent cannot be started or could not restore.
        """
        clear_leftovers()
        process = await asyncio.create_subprocess_exec(
            find_agent(), "restore", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(_RESTORE_TIMEOUT_S):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise StealtimeError(f"`stealtime-agent restore` did not end within {_RESTORE_TIMEOUT_S:.0f} s") from None
        if process.returncode:
            lines = output.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
            raise StealtimeError(
                f"what an earlier run changed cannot be put back: {lines[-1]}",
                hint="see /proc/sys/kernel/sched_rt_runtime_us; its default is 950000",
            )


def read_host_facts(measured_cpu: int) -> Facts:
    """Read what a reader of the results must know about this host.

    Args:
        measured_cpu: The CPU whose frequency governor is read.

    What the agent of every machine reads too (``crates/probe/src/facts.rs``) has the same name, so that host and
    machine stand side by side.
    """
    cpu_sets = read_cpu_sets()
    frequency = CPU_FOLDER / f"cpu{measured_cpu}" / "cpufreq"
    return {
        "operating_system": _fact(lambda: platform.freedesktop_os_release()["PRETTY_NAME"]),
        "kernel_release": Value(value=platform.release()),
        "kernel_version": Value(value=platform.version()),
        "kernel_command_line": _file(Path("/proc/cmdline")),
        "cpu_model": _fact(lambda: _cpu_info("model name")),
        "microcode": _fact(lambda: _cpu_info("microcode")),
        **{flag: _cpu_flag(flag) for flag in ("constant_tsc", "nonstop_tsc", "hypervisor")},
        "hypervisor_signature": _signature(),
        "cpus_allowed": Value(value=format_cpus(cpu_sets.inherited)),
        "cpus_granted": Value(value=format_cpus(cpu_sets.granted)),
        "cpus_online": _file(CPU_FOLDER / "online"),
        "cpus_isolated": _file(CPU_FOLDER / "isolated"),
        "measured_cpu": Value(value=measured_cpu),
        "smt": _file(CPU_FOLDER / "smt" / "control"),
        "frequency_governor": _file(frequency / "scaling_governor"),
        "frequency_driver": _file(frequency / "scaling_driver"),
        "clocksource": _file(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "sched_rt_period_us": _number(Path("/proc/sys/kernel/sched_rt_period_us")),
        "sched_rt_runtime_us": _number(Path("/proc/sys/kernel/sched_rt_runtime_us")),
        "memory_total_bytes": _fact(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "ksm": _file(Path("/sys/kernel/mm/ksm/run")),
        "user_id": Value(value=os.geteuid()),
        "exclusivity": read_exclusivity(os.environ),
        "python_version": Value(value=platform.python_version()),
        "qemu_version": _program("qemu-system-x86_64", "--version"),
    }


def _signature() -> Reading:
    signature = hypervisor_signature()
    return Absent(absent="the CPU reports no hypervisor") if signature is None else Value(value=signature)


def read_git_describe() -> Reading:
    """Tell which commit this stealtime is, if it runs from a git work tree."""
    source = Path(stealtime.__file__).parents[2]
    if not (source / ".git").exists():
        return Absent(absent="installed from a package, not run from a git work tree")
    return _program("git", "-C", str(source), "describe", "--always", "--dirty", "--tags")


def pin_control_plane(cpus: tuple[int, ...]) -> list[HostThread]:
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
            name = (entry / "comm").read_text("utf-8", "replace").strip()
        except (ProcessLookupError, FileNotFoundError):
            continue
        threads.append(HostThread("control", name, int(entry.name), tuple(allowed)))
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
