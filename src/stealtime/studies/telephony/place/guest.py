"""The server in guests on two hosts, in namespaces or real ones: unprotected, or checkpointed from one to the other.

The roles ``signalling`` and ``media`` are two guests beside each other on the same host, or each on one of its own
(:mod:`.separate_hosts`); ``both`` is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.guest import Fault, Guest, lose_host
from stealtime.hosts.host import CpuTimes, FaultKind, NotProtectedError
from stealtime.hosts.standby_loss import Lapse, StandbyLoss, lapse_after, lose_standby
from stealtime.hosts.standby_memory import StandbyMemory
from stealtime.hosts.testbed import Testbed
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import HOLDING
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.image import USUAL_SIZE, Size, obtain_image
from stealtime.studies.telephony.appliance.replication import ReplicaConfiguration
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.parameters import Mode, Roles
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.model import HostUse, unprotected

KERNEL = "cloud"
"""Of guests, as ``VM.toml`` names it."""
MEDIA_HOME = 2
"""The number of the host where media begin that have one of their own; that between is the standby of both."""
UP_WITHIN_S = 180.0
"""The first copy of all memory may go over a real link."""


class GuestsPlace:
    """What a server in guests has in common, wherever they are and however they are protected."""

    def __init__(self, testbed: Testbed, mode: Mode, *, cpus_of_each: int = 1) -> None:
        self._cpus_of_each = cpus_of_each
        self._silent: set[str] = set()
        """The hosts that fell silent."""
        self._roles: dict[str, Role] = {}
        """By the name of a machine: what it does, where that is not everything."""
        self.testbed = testbed
        self.mode = mode
        self.client = testbed.client
        self.guests: list[Guest] = []

    @property
    def cpus(self) -> int:
        """Count the virtual CPUs of all guests."""
        return self._cpus_of_each * len(self.guests)

    def start(self) -> None:
        for guest in self.guests:
            guest.start()

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until each guest is protected (in mode ``off``: runs); give their active members."""
        return [guest.await_ready(unlike) for guest in self.guests]

    def members(self) -> list[MemberStatus]:
        return [member for guest in self.guests for member in guest.running_members()]

    def check_protected(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """See that its guests were protected all the time; those that were added since are not asked."""
        for guest, member in zip(self.guests, members, strict=False):
            guest.check_protected(member, from_ns)

    def epochs_since(self, members: Sequence[MemberStatus], from_ns: int) -> list[list[dict[str, int]]]:
        """Give the rows of the epochs of each guest that is protected, which began since a moment of our clock."""
        protecting = {member.vm: member for member in members}
        return [
            guest.epochs_since(protecting[guest.name], from_ns)
            for guest in self.guests
            if guest.mode != "off" and guest.name in protecting
        ]

    def cpu_times(self) -> CpuTimes:
        """Read what the guests, and all else on their hosts, have used."""
        return self.testbed.cpu_times()

    def use_by_host(self) -> dict[str, HostUse]:
        """Read the same of each host, by its name, with what runs there now."""
        times = self.testbed.times_by_host()
        runs: dict[str, list[Role]] = {host: [] for host in times}
        for member in self.members():
            runs[member.host].append(self._roles.get(member.vm, "both"))
        return {host: HostUse(tuple(runs[host]), used) for host, used in times.items()}

    def standby_memory(self) -> StandbyMemory | None:
        return self.testbed.standby_memory()

    def stop(self) -> None:
        """End all that runs on the hosts, and have the usual two receive machines again."""
        self.testbed.clear()

    def lose(self, guests: Sequence[Guest], active: Sequence[MemberStatus], kind: FaultKind) -> Fault:
        """Lose the hosts of some of its guests; see :func:`stealtime.hosts.guest.lose_host`."""
        self._silent = {one.host for one in active} if kind == "silent" else set()
        survived = [guest.other_host(one.host) for guest, one in zip(guests, active, strict=True)]
        return lose_host(guests, active, survived, kind)

    def lose_homes(self, guests: Sequence[Guest], kind: FaultKind) -> Fault:
        """Lose the hosts where some of its guests began, at once, each when it is protected.

        Raises:
            NotProtectedError: One is elsewhere already.
            StealtimeError: It is not protected, or nobody took it over.
        """
        if self.mode == "off":
            raise unprotected()
        active = [guest.await_ready() for guest in guests]
        for guest, one in zip(guests, active, strict=True):
            if one.host != guest.home:
                raise NotProtectedError(f"the guest of {guest.home} is on its standby already")
        return self.lose(guests, active, kind)

    def go_home(self) -> None:
        """Have guests that were taken over moved back, as their operator does it: a host that is lost has one only.

        Raises:
            StealtimeError: One does not come back, or is not protected there.
        """
        for guest in self.guests:
            active = guest.await_ready()
            if active.host != guest.home:
                guest.lose_host(active, "planned")
                guest.await_taken(guest.home)
        self.await_protected()

    def revive(self) -> None:
        silent, self._silent = self._silent, set()
        for host in {host.name: host for guest in self.guests for host in guest.hosts if host.name in silent}.values():
            host.revive()

    def log_tail(self) -> str:
        return self.testbed.log_tail()


@dataclass(frozen=True)
class CheckpointIntervals:
    """When the checkpoints of a server's guests are made."""

    interval_ns: int | None = None
    """From one to the next; None: the usual one."""
    min_interval_ns: int | None = None
    """Where output waits one is made at once, so long after the last one at the least; None: it waits for the next."""

    def described(self, mode: str) -> dict[str, str]:
        """Say so of a guest that is protected in a mode, as in ``VM.toml``."""
        least_ns = self.min_interval_ns if mode in HOLDING else None
        given = {"interval": self.interval_ns, "min_interval": least_ns}
        return {name: f"{value_ns}ns" for name, value_ns in given.items() if value_ns is not None}


USUAL_INTERVALS = CheckpointIntervals()


class GuestPlace(GuestsPlace):
    """A server in one guest or two.

    Args:
        testbed: The hosts.
        name: What the machines' names begin with, new for each place: the register remembers the last one of a name.
        mode: How it is protected; ``net+no-net`` and, apart from each other, ``net+bypass`` are the modes of signalling
            and of media.
        intervals: From one checkpoint to the next.
        roles: Whether signalling and media share a guest, or a host.
        size: How large each guest is.
        machine: What else is different from the usual machine, as in ``VM.toml``.

    Raises:
        UsageError: The hosts have no address for a guest with media.
    """

    def __init__(
        self,
        testbed: Testbed,
        name: str,
        mode: Mode,
        *,
        intervals: CheckpointIntervals = USUAL_INTERVALS,
        roles: Roles = "together",
        size: Size = USUAL_SIZE,
        **machine: Any,
    ) -> None:
        super().__init__(testbed, mode, cpus_of_each=size.cpus)
        self.address = testbed.address(0)
        homes: tuple[int, ...] = (0,)
        if roles == "together":
            self.media_address = self.address
            configurations = [ServerConfiguration(role="both", address=self.address, cpus=size.cpus)]
        else:
            homes = (0, MEDIA_HOME if roles == "hosts" else 0)
            self.media_address = testbed.address(1)
            configurations = [
                ServerConfiguration(
                    role="signalling", address=self.address, media_address=self.media_address, cpus=size.cpus
                ),
                ServerConfiguration(role="media", address=self.media_address, cpus=size.cpus),
            ]
        self.guests = [
            testbed.guest(
                f"{name}-{configuration.role}",
                number=number,
                home=homes[number],
                **{**machine_of(configuration, mode_of(configuration.role, mode), intervals, size), **machine},
            )
            for number, configuration in enumerate(configurations)
        ]
        self._roles = {
            guest.name: configuration.role for guest, configuration in zip(self.guests, configurations, strict=True)
        }

    @property
    def addresses(self) -> Sequence[str]:
        """Give its only one, as long as it is one appliance."""
        return (self.address,)

    @property
    def signalling(self) -> Guest:
        """The guest that keeps the registrations."""
        return self.guests[0]

    def await_ready(self) -> None:
        """Wait until all guests are protected as they shall be, and the server answers."""
        self.await_protected()
        await_answer(self.client, self.address, UP_WITHIN_S, self.log_tail, self._refuse_end)
        self.await_protected()

    def lose_host(self, kind: FaultKind = "killed") -> Fault:
        """Lose the members on the host where the server runs, each when it is protected."""
        if self.mode == "off":
            raise unprotected()
        active = self.await_protected()
        died = active[0].host
        if {one.host for one in active} != {died}:
            raise NotProtectedError("the guests of the server are not on the same host")
        return self.lose(self.guests, active, kind)

    def lose_standby(self, active: Sequence[MemberStatus], kind: FaultKind) -> StandbyLoss:
        """Lose the host that backs it; its guests go on where they are. See :mod:`stealtime.hosts.standby_loss`.

        Args:
            active: The members of its guests.
            kind: How.

        Raises:
            StealtimeError: It is not protected, or a standby has no guest that could be moved away.
        """
        if self.mode == "off":
            raise unprotected()
        loss = lose_standby(self.guests, active, kind)
        self._silent = {loss.host} if kind == "silent" else set()
        return loss

    def lapse_after(self, active: Sequence[MemberStatus], loss: StandbyLoss) -> Lapse:
        """Tell how long it was not protected after it had lost its standby; it is protected again."""
        return lapse_after(self.guests, active, loss)

    def _refuse_end(self) -> None:
        for guest in self.guests:
            guest.members()


def mode_of(role: Role, mode: Mode) -> str:
    """Give how the guest of a role is protected: only what media says may leave before its state is safe."""
    if mode == "net+no-net":
        return "no-net" if role == "media" else "net"
    return "net" if (role, mode) == ("signalling", "net+bypass") else mode


def machine_of(
    configuration: ServerConfiguration | ReplicaConfiguration,
    mode: str,
    intervals: CheckpointIntervals,
    size: Size = USUAL_SIZE,
) -> dict[str, Any]:
    """Say what a guest with a server is, and how it is protected, as in ``VM.toml``."""
    image = obtain_image(configuration, KERNEL)
    first, last = configuration.media_ports
    machine: dict[str, Any] = {
        "mode": mode,
        "initramfs": image.initramfs,
        "vcpus": size.cpus,
        # The tree is more than half of the memory, which is all that a tmpfs takes.
        "kernel_arguments": "rootfstype=ramfs",
        "memory": f"{size.memory_bytes(image) >> 20}MiB",
        "bypass": [{"protocol": "udp", "source_port": f"{first}-{last}"}] if mode == "net+bypass" else [],
    }
    return {**machine, **intervals.described(mode)}
