"""What every place of a server has in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stealtime.hosts.client import Client
from stealtime.hosts.guest import Fault
from stealtime.hosts.host import CpuTimes, FaultKind
from stealtime.hosts.standby_memory import StandbyMemory
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.parameters import Mode
from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class HostUse:
    """A host that keeps guests of a server."""

    runs: tuple[Role, ...]
    """What each guest does that runs there; none where it only stands by."""
    used: CpuTimes
    """By them, and by all else of theirs on this host."""


def unprotected() -> StealtimeError:
    """Give the error of who would kill the host of a server that nobody takes over."""
    return StealtimeError(
        "a server without protection does not survive its host", hint="choose the mode net, net+bypass or no-net"
    )


class Place(Protocol):
    """A server that answers, or will."""

    @property
    def mode(self) -> Mode:
        """How it is protected."""
        ...

    @property
    def client(self) -> Client:
        """Where its phones are."""
        ...

    @property
    def address(self) -> str:
        """Where SIP is spoken, an IPv4 address."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Where SIP is spoken by each of several appliances, which know nothing of each other; the first is
        ``address``."""
        ...

    @property
    def media_address(self) -> str:
        """Where media are relayed."""
        ...

    @property
    def cpus(self) -> int:
        """How many CPUs its server has: those of this machine, or all virtual ones of its guests."""
        ...

    def start(self) -> None:
        """Start it; does not wait."""
        ...

    def await_ready(self) -> None:
        """Wait until it is as protected as it shall be, and answers.

        Raises:
            StealtimeError: It does not come up.
        """
        ...

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> Sequence[MemberStatus]:
        """Wait until it is as protected as it shall be; give the members of its guests; natively there are none.

        Args:
            unlike: Members (pids) that must not be among those that protect it.

        Raises:
            StealtimeError: It does not come that far.
        """
        ...

    def members(self) -> Sequence[MemberStatus]:
        """Give the members whose guests run now; does not wait."""
        ...

    def check_protected(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """See that it was protected all the time since a moment of the monotonic clock, when those members were active.

        Raises:
            NotProtectedError: It was not.
        """
        ...

    def epochs_since(self, members: Sequence[MemberStatus], from_ns: int) -> Sequence[Sequence[Mapping[str, int]]]:
        """Give the rows of the epochs of each guest that is protected, which began since a moment of the monotonic
        clock, by the names of their columns; none without protection.

        Args:
            members: Those that were active all the time since.
            from_ns: The moment.
        """
        ...

    def cpu_times(self) -> CpuTimes:
        """Read what it has used of the host's CPUs."""
        ...

    def use_by_host(self) -> Mapping[str, HostUse]:
        """Read the same of each host that keeps its guests, by the host's name; natively there are none."""

    def standby_memory(self) -> StandbyMemory | None:
        """Read what the host that backs it has of it in memory; None where none does, or does not say."""
        ...

    def lose_host(self, kind: FaultKind = "killed") -> Fault:
        """Have the host that it runs on be lost; give the times when its guest runs again.

        Raises:
            StealtimeError: It is not protected, or nobody took it over.
        """
        ...

    def revive(self) -> None:
        """Let hosts that fell silent live again."""
        ...

    def stop(self) -> None:
        """End it and what belongs to it."""
        ...

    def log_tail(self) -> str:
        """Give the end of what it wrote, and of all logs around it."""
        ...
