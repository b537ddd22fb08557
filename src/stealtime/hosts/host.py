"""A host that keeps guests, however it is reached: what it can be asked and told.

Two things keep it: a network namespace of this machine (:mod:`.namespace_testbed`), and a real host over ssh
(:mod:`.lent_hosts`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from stealtime.hosts.clock_offset import ClockOffset
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

FaultKind = Literal["killed", "silent", "planned"]
"""How a host is lost to a guest: ``killed``: the guest's member and QEMU by SIGKILL, and their connections close;
``silent``: only missing heartbeats tell of it; ``planned``: not at all, its operator moves the guest away."""

FAULT_WORDS: Mapping[FaultKind, str] = {
    "killed": "Host killed",
    "silent": "Host fallen silent",
    "planned": "Moved by its operator",
}


class NotProtectedError(StealtimeError):
    """A host died, or would have, when its guest was just not protected, as on a crowded host."""


@dataclass(frozen=True)
class CpuTimes:
    """CPU time that was used since the beginning, in nanoseconds."""

    server_ns: int
    """By guests: all their vCPU threads together; natively by the server's processes."""
    host_ns: int | None
    """By the host side: QEMU's other threads, the members and daemons of all hosts. None natively."""
    standby_ns: int | None = None
    """Of that, by what only stands by: members that back a guest, their QEMU, and the daemon of a host where nothing
    runs. None natively, and where a host does not say."""

    @classmethod
    def sum(cls, times: Iterable["CpuTimes"]) -> "CpuTimes":
        """Add those of several hosts of guests."""
        each = list(times)
        standbys = [one.standby_ns for one in each]
        standby_ns = None if None in standbys else sum(one or 0 for one in standbys)
        return cls(sum(one.server_ns for one in each), sum(one.host_ns or 0 for one in each), standby_ns)

    def since(self, earlier: "CpuTimes") -> "CpuTimes":
        host_ns, standby_ns = _less(self.host_ns, earlier.host_ns), _less(self.standby_ns, earlier.standby_ns)
        return CpuTimes(self.server_ns - earlier.server_ns, host_ns, standby_ns)


def _less(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else later - earlier


@dataclass(frozen=True)
class Seen:
    """What a host says of a guest."""

    member: MemberStatus | None
    """None: it has no member of it."""
    ended: StealtimeError | None = None
    """Why there is none any more, where the guest was started on this host."""


class Host(Protocol):
    """A host that keeps guests. Each verb raises ``StealtimeError`` where the host refuses, or is gone.

    Times are nanoseconds of its own monotonic clock; :meth:`clock` brings them to ours.
    """

    @property
    def name(self) -> str:
        """Its name in the register."""

    def start(self, machine: Mapping[str, Any]) -> None:
        """Boot a guest, described as in ``VM.toml`` but for what is the host's own; does not wait."""

    def look(self, vm: str) -> Seen:
        """Tell what is there of a guest."""

    def events(self, vm: str, event: str) -> list[dict[str, Any]]:
        """Give what the guest's members here noted about one kind of event, the earliest first."""

    def epochs(self, vm: str, from_ns: int) -> list[dict[str, int]]:
        """Give the rows of the guest's epochs that began since a moment, by the names of their columns."""

    def die(self, vm: str, pid: int, kind: FaultKind) -> int:
        """Have the guest's member here, and its QEMU, be lost while the guest is protected; give when.

        Only an active member can be ``planned``: it hands its guest over.

        Raises:
            NotProtectedError: It was not, or left that member before.
        """

    def kill(self, vm: str) -> int:
        """Kill a guest that nothing protects, with its member; give when."""

    def revive(self) -> None: ...

    def end(self, vm: str) -> None:
        """End what is here of a guest, and remove it."""

    def cpu_times(self) -> CpuTimes:
        """Read what its guests, their members and its daemon have used."""

    def clock(self) -> ClockOffset:
        """Find where its clock stands."""
