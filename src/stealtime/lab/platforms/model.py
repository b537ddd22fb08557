"""What every platform offers: a check whether it is usable here, and a booted machine with an agent on the line."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.device_models import DeviceChoice
from stealtime.lab.platforms.share import Share
from stealtime.vocabulary.readings import STRICT, Absent, Facts, Reading
from stealtime.wire.connection import AgentConnection

if TYPE_CHECKING:
    from stealtime.lab.platforms.cgroup import CpuGroup
    from stealtime.lab.platforms.kvm_counters import CountersLook
    from stealtime.lab.processors import CpuSets


@dataclass(frozen=True)
class Availability:
    """Whether a platform can be used on this host, and why not."""

    usable: bool
    reason: str
    """One sentence with the value that decided: a version, a path, what a proof boot printed."""
    hint: str | None = None
    cpus: "CpuSets | None" = None
    """Of the host on which its machines run, where that is another one."""


@dataclass(frozen=True)
class MachineRequest:
    """The machine that a scenario wants."""

    vcpu_cpus: tuple[tuple[int, ...], ...]
    """The physical CPUs on which each virtual CPU may run, the measured one last; natively and over ssh only the last
    counts: where the measuring threads may run."""
    housekeeping_cpus: tuple[int, ...]
    """Where the control plane and what helps it may run."""
    folder: Path
    """Where ``serial.log``, ``agent.log`` and sockets are put."""
    emulator_cpus: tuple[int, ...] = ()
    """Where emulator threads may run; none means on the housekeeping CPUs."""
    share: Share | None = None
    """Of the machine with its emulator; None leaves it in the group of the control plane."""
    group: str = "machine"
    """The name of its CPU group, unique among the machines that run at once."""
    realtime: bool = True
    """Natively: whether SCHED_FIFO threads will run in its CPU group."""
    memory_bytes: int = 256 << 20
    kernel: str = "rt"
    """``rt``, ``rt-new``, ``cloud``, ``standard``, ``backports``, ``host`` or the path of a bzImage or vmlinux."""
    boot_timeout_s: float = 60.0
    silence_timeout_s: float | None = None
    """How long the console of a guest that tells all on it may stay empty; None for as long as it boots."""
    devices: tuple[DeviceChoice, ...] = ()
    """What it is to have beside the devices of its platform."""
    is_emulator_traced: bool = False
    """Whether its emulator writes down its own trace points of these devices."""
    lost_after_s: float | None = None
    """Over ssh: how long a host that answers nothing is waited for while it measures; None for as long as it takes."""

    @property
    def cpus_of_emulator(self) -> tuple[int, ...]:
        return self.emulator_cpus or self.housekeeping_cpus


@dataclass(frozen=True)
class BootRecord:
    """How the machine came up."""

    __pydantic_config__ = STRICT

    argv: tuple[str, ...]
    elapsed_to_hello_s: float
    facts: Mapping[str, str] = field(default_factory=dict)
    """Platform facts: ``qemu_version``, ``accelerator``, ``kernel_image``, ``initramfs_sha256`` ..."""


class Machine(Protocol):
    """A machine under test, booted, with its agent on the line."""

    platform: str
    connection: AgentConnection
    boot: BootRecord
    measured_cpus: tuple[int, ...]
    """The CPUs to measure on, as the machine under test counts them: one, or those that the threads may roam over."""
    cpu_group: "CpuGroup | None"
    """Its CPU group, where it has a share."""
    serial_log: Path | None
    emulator_trace: Path | None
    """Where its emulator writes down what it does with its devices; None where it does not."""
    agent_facts: Facts

    def threads(self) -> list[HostThread]:
        """Who runs where on the host, read back now."""

    def tsc_offset(self) -> Reading:
        """How many cycles its time-stamp counter is ahead of the host's, where its hypervisor says so."""

    def exit_reason(self) -> str | None:
        """Why the machine is gone, or None while it lives."""

    async def hypervisor_counters(self) -> "CountersLook | Absent":
        """What its hypervisor has counted since the boot, read now, or why there is nothing; raises nothing."""


class Platform(Protocol):
    """A way to get a machine."""

    name: str

    async def check(self) -> Availability:
        """Find whether this platform is usable here; costs seconds at most, once, and leaves nothing behind."""

    def boot(self, request: MachineRequest) -> AbstractAsyncContextManager[Machine]:
        """Boot a machine; leaving the context ends it and all that belongs to it.

        Raises:
            StealtimeError: It did not come up; the message holds what the machine said last.
        """
