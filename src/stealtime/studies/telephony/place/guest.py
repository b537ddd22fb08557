"""The server in guests on two hosts: unprotected, or checkpointed from one to the other.

The roles ``signalling`` and ``media`` are two guests beside each other on the same host; ``both`` is one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import JsonValue

from stealtime.hosts.laboratory import GUEST_ADDRESS, Laboratory
from stealtime.hosts.process_times import thread_times_ns
from stealtime.hosts.stand import EMULATED_TIMING, HOSTS, NotProtectedError, Stand, StandGuest, other
from stealtime.lab.platforms import below
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.image import obtain_image
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.client import Client, LaboratoryClient
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.model import Blow, CpuTimes, Mode, unprotected
from stealtime.studies.telephony.place.steady import refuse_lapse

Placement = Literal["together", "apart"]

KERNEL = "cloud"
"""Of guests, as ``VM.toml`` names it."""
_UP_WITHIN_S = 120.0
_TAKEN_WITHIN_S = 30.0
_LAST_LINES = 25


class GuestPlace:
    """A server in one guest or two.

    Args:
        stand: The hosts.
        name: Of the machine, new for each one: the register remembers the last one of a name.
        mode: How it is protected; ``net+no-net`` and, apart from each other, ``net+bypass`` are the modes of signalling
            and of media.
        interval_ns: From one checkpoint to the next; None: the usual one.
        placement: Whether signalling and media share a guest.
        machine: What else is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self,
        stand: Stand,
        name: str,
        mode: Mode,
        *,
        interval_ns: int | None = None,
        placement: Placement = "together",
        **machine: Any,
    ) -> None:
        self.stand = stand
        self.mode = mode
        self.client: Client = LaboratoryClient(stand.laboratory)
        network, _, last = GUEST_ADDRESS.rpartition(".")
        self.address = GUEST_ADDRESS
        if placement == "together":
            self.media_address = GUEST_ADDRESS
            configurations = [ServerConfiguration(role="both", address=GUEST_ADDRESS)]
        else:
            self.media_address = f"{network}.{int(last) + 1}"
            configurations = [
                ServerConfiguration(role="signalling", address=GUEST_ADDRESS, media_address=self.media_address),
                ServerConfiguration(role="media", address=self.media_address),
            ]
        self.guests = [
            StandGuest(
                stand,
                f"{name}-{configuration.role}",
                number=number,
                **{**machine_of(configuration, mode_of(configuration.role, mode), interval_ns), **machine},
            )
            for number, configuration in enumerate(configurations)
        ]

    @classmethod
    def of_parameters(
        cls, stand: Stand, name: str, parameters: Mapping[str, JsonValue], accelerator: str
    ) -> "GuestPlace":
        """Make one of the parameters of a cell."""
        interval_ns = parameters.get("interval_ns")
        return cls(
            stand,
            name,
            cast("Mode", parameters["mode"]),
            interval_ns=interval_ns if isinstance(interval_ns, int) else None,
            placement=cast("Placement", parameters.get("placement", "together")),
            accelerator=accelerator,
        )

    @property
    def laboratory(self) -> Laboratory:
        """The networks around it."""
        return self.stand.laboratory

    @property
    def signalling(self) -> StandGuest:
        """The guest that keeps the registrations."""
        return self.guests[0]

    def start(self) -> None:
        """Boot its guests; does not wait."""
        for guest in self.guests:
            guest.start()

    def await_ready(self) -> None:
        """Wait until all guests are protected as they shall be, and the server answers."""
        self.await_protected()
        await_answer(self.client, self.address, _UP_WITHIN_S, self.last_words, self._refuse_end)
        self.await_protected()

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until each guest is protected (in mode ``off``: runs); give their active members."""
        return [guest.await_ready(unlike, _UP_WITHIN_S) for guest in self.guests]

    def members(self) -> list[MemberStatus]:
        """Give the members whose guests run now, protected or not."""
        return [status for guest in self.guests for name in HOSTS if (status := guest.running(name))]

    def refuse_lapse(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """See that its guests were protected all the time."""
        refuse_lapse(self.guests, members, from_ns)

    def cpu_times(self) -> CpuTimes:
        """Read what QEMU, the members and the daemons of both hosts have used."""
        return guests_cpu_times(self.laboratory, HOSTS, self.members())

    def kill_host(self) -> Blow:
        """Kill the members on the host where the server runs, each when it is protected."""
        if self.mode == "off":
            raise unprotected()
        active = self.await_protected()
        died, survived = active[0].host, other(active[0].host)
        if {one.host for one in active} != {died}:
            raise NotProtectedError("the guests of the server are not on the same host")
        return kill_members(self.guests, active, survived)

    def stop(self) -> None:
        """End all that runs on both hosts, and have them receive machines again."""
        self.laboratory.mend_all()
        for name in HOSTS:
            self.laboratory.power_off(name)
            self.stand.start_daemon(name)

    def last_words(self) -> str:
        """Give the end of what its guests wrote on their consoles, and of the logs of members and hosts."""
        consoles = sorted(self.stand.state.path.glob("*/*/console.log"))
        ends = [path.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:] for path in consoles]
        return "\n".join([*("\n".join(lines) for lines in ends), self.stand.last_words()])

    def _refuse_end(self) -> None:
        for guest in self.guests:
            guest.refuse_end()


def guests_cpu_times(laboratory: Laboratory, hosts: Sequence[str], members: Sequence[MemberStatus]) -> CpuTimes:
    """Read what guests, and all else on their hosts, have used.

    QEMU does not name its threads here. A vCPU's thread is the one that has used most: booting took it seconds, all
    others together milliseconds.

    Args:
        laboratory: Has the hosts.
        hosts: All of which the guests use any.
        members: Those whose guests run.
    """
    active = {member.qemu_pid for member in members}
    server_ns = host_ns = 0
    for pid in {pid for name in hosts for pid in laboratory.processes(name)}:
        times_ns = thread_times_ns(pid)
        vcpu_ns = max(times_ns, default=0) if pid in active else 0
        server_ns += vcpu_ns
        host_ns += sum(times_ns) - vcpu_ns
    return CpuTimes(server_ns, host_ns)


def kill_members(guests: Sequence[StandGuest], active: Sequence[MemberStatus], survived: str) -> Blow:
    """Kill the members of guests on one host, each when it is protected; give when the last of the guests runs again.

    Args:
        guests: Them.
        active: Their members, in the same order.
        survived: The host that takes them over.

    Raises:
        StealtimeError: It does not; ``NotProtectedError`` where a guest left its host before the blow.
    """
    struck_ns = min(guest.kill_member(one) for guest, one in zip(guests, active, strict=True))
    taken = [guest.await_taken(survived, _TAKEN_WITHIN_S) for guest in guests]
    running_ns = max(guest.continued_ns(survived, struck_ns) for guest in guests)
    resume_ns = max(status.resume_ns or 0 for status in taken)
    return Blow(struck_ns, running_ns - resume_ns, running_ns, active[0].host, survived)


def mode_of(role: Role, mode: Mode) -> str:
    """Give how the guest of a role is protected: only what media says may leave before its state is safe."""
    if mode == "net+no-net":
        return "no-net" if role == "media" else "net"
    return "net" if (role, mode) == ("signalling", "net+bypass") else mode


def machine_of(configuration: ServerConfiguration, mode: str, interval_ns: int | None) -> dict[str, Any]:
    """Say what a guest with a server is, and how it is protected, as in ``VM.toml``."""
    image = obtain_image(configuration, KERNEL)
    first, last = configuration.media_ports
    machine: dict[str, Any] = {
        "mode": mode,
        "timing": EMULATED_TIMING if below.is_emulated() else {},
        "initramfs": image.initramfs,
        # The tree is more than half of the memory, which is all that a tmpfs takes.
        "kernel_arguments": "rootfstype=ramfs",
        "memory": f"{image.memory_bytes >> 20}MiB",
        "bypass": [{"protocol": "udp", "source_port": f"{first}-{last}"}] if mode == "net+bypass" else [],
    }
    return machine if interval_ns is None else {**machine, "interval": f"{interval_ns}ns"}
