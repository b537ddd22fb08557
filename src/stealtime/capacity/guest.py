"""A guest of this host, as its process tells."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["qemu", "uml", "kvm"]
"""What runs it; ``kvm`` is any other program that runs a guest under KVM."""
Role = Literal["vcpu", "emulator", "io"]


@dataclass(frozen=True)
class Guest:
    """A running virtual machine, whoever started it."""

    name: str
    kind: Kind
    pid: int
    started_ticks: int
    """Clock ticks from boot to its start: with ``pid`` it names the process for good."""
    memory_bytes: int | None = None
    """What it was given; None if its command line does not tell."""
    monitor: Path | None = None
    """A Unix socket on which QEMU speaks QMP, where one is on its command line."""
    console: Path | None = None
    """The management socket (mconsole) of a User-Mode Linux guest."""
    agent: Path | None = None
    """A Unix socket on which QEMU's guest agent answers ..."""
    domain: str | None = None
    """... or the domain of a libvirt that has it."""
    elsewhere: str | None = None
    """Why its virtual CPUs are no threads of this process, where they are not."""

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.started_ticks


@dataclass(frozen=True, slots=True)
class GuestThread:
    """A thread of the host that belongs to a guest."""

    tid: int
    role: Role
    vcpu: int | None = None
    """Which virtual CPU it is."""
