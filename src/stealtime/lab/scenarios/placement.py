"""Who runs where: what a scenario comes to on one host."""

from dataclasses import dataclass
from typing import Final, Literal

from stealtime.lab.platforms.share import Share
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.vocabulary.errors import ExitCode, StealtimeError
from stealtime.vocabulary.findings import Finding

CpuSet = tuple[int, ...]

Load = Literal["cpu-load", "memory-load", "same-work"]
SAME_WORK: Final = "same-work"
"""What the machine under test does in the trial."""


class ScenarioSkipped(StealtimeError):  # noqa: N818 - it is no error of the tool, and reads as what it is
    """A scenario cannot be had here honestly.

    Args:
        reason: One sentence with the numbers that decided.
        hint: What would make it possible.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason, hint=hint, exit_code=ExitCode.NOT_JUDGED)
        self.reason = reason


@dataclass(frozen=True)
class PlacedNeighbour:
    """A neighbour and where it runs."""

    name: str
    """``neighbour 1``, ``neighbour 2`` ..."""
    kind: Literal["machine", "process"]
    load: Load
    cpus: CpuSet
    """Of its vCPUs and its emulator threads; of the load, where it is a process."""
    share: Share | None = None
    priority: int = 0
    block_bytes: int | None = None
    """What is copied; None is the default for this host's caches."""
    on_ns: int | None = None
    off_ns: int | None = None
    vcpu_cpus: tuple[CpuSet, ...] = ()
    """Where each of its virtual CPUs may run; none given is one virtual CPU on all of ``cpus``."""

    @property
    def vcpus(self) -> int:
        return len(self.each_vcpu)

    @property
    def each_vcpu(self) -> tuple[CpuSet, ...]:
        return self.vcpu_cpus or (self.cpus,)


@dataclass(frozen=True)
class Placement:
    """Who runs on which CPU of the host."""

    scenario: str
    """The scenario's name."""
    measured_cpu: int
    """The CPU of the host that is measured; where the measured vCPU roams, the last one that it may use."""
    vcpu_cpus: tuple[CpuSet, ...]
    """Where each virtual CPU of the machine under test may run; the last one is measured."""
    emulator_cpus: CpuSet
    """For the machine's emulator threads."""
    housekeeping_cpus: CpuSet
    """For the control plane and everything else of ours."""
    share: Share | None = None
    """Of the machine under test with its emulator."""
    priority: int | None = None
    """Of the measuring threads, where the scenario has its own; 0 is ordinary scheduling."""
    neighbours: tuple[PlacedNeighbour, ...] = ()
    hosts: RealHosts | None = None
    """Where the machine is kept on other hosts than this one; the CPUs are then those of what measures it."""
    findings: tuple[Finding, ...] = ()
    """What a reader of every result of this placement must know."""
    scaled: str | None = None
    """How "all" was scaled from the paper's host to this one, in a sentence."""
