"""The server in guests on two real hosts, which are lent to the campaign; its phones are on this machine.

The roles ``signalling`` and ``media`` are two guests beside each other on the same host; ``both`` is one.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from stealtime.hosts.stand import NotProtectedError
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.client import LocalClient
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.guest import Placement, machine_of, mode_of
from stealtime.studies.telephony.place.model import Blow, CpuTimes, Mode, unprotected
from stealtime.studies.telephony.place.remote_guest import Loan, RemoteGuest
from stealtime.studies.telephony.place.steady import refuse_states
from stealtime.vocabulary.errors import StealtimeError, UsageError

_UP_WITHIN_S = 180.0
"""The first copy of all memory goes over a real link."""
_TAKEN_WITHIN_S = 30.0

Copied = Callable[[Path], Path]
"""Gives the path of a file of this machine on both hosts, where it is copied first."""


class RemotePlace:
    """A server in one guest or two on lent hosts.

    Args:
        loan: The hosts.
        client: Where its phones are.
        name: Of the machines, with the role behind it; never used before.
        parameters: Of the cell: ``mode``, ``interval_ns``, ``placement``, as ``GuestPlace`` takes them.
        kernel: Of the guests, on both hosts.
        copied: Brings an initramfs to both hosts.

    Raises:
        UsageError: The scenario has no address for a guest with media.
    """

    def __init__(
        self,
        loan: Loan,
        client: LocalClient,
        name: str,
        parameters: Mapping[str, JsonValue],
        kernel: Path,
        copied: Copied,
    ) -> None:
        self._loan = loan
        self.mode = cast("Mode", parameters["mode"])
        self.client = client
        interval_ns = parameters.get("interval_ns")
        configurations = configurations_of(loan, cast("Placement", parameters.get("placement", "together")))
        self.address = configurations[0].address
        self.media_address = configurations[-1].address
        self._guests = []
        for configuration in configurations:
            guest_mode = cast("Mode", mode_of(configuration.role, self.mode))
            told = machine_of(configuration, guest_mode, interval_ns if isinstance(interval_ns, int) else None)
            # Deadlines are for the hosts to know.
            told.pop("timing")
            machine = {
                **told,
                "kernel": str(kernel),
                "initramfs": str(copied(told["initramfs"])),
                "network": _network(loan, configuration.address),
            }
            self._guests.append(
                RemoteGuest(loan, f"{name}-{configuration.role}", guest_mode, machine, lambda: client.has_ended)
            )

    def start(self) -> None:
        """Boot its guests; does not wait."""
        for guest in self._guests:
            guest.start()

    def await_ready(self) -> None:
        """Wait until all guests are protected as they shall be, and the server answers."""
        self.await_protected()
        await_answer(self.client, self.address, _UP_WITHIN_S, self.last_words, self.members)
        self.await_protected()

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until each guest is protected (in mode ``off``: runs); give their active members."""
        return [guest.await_ready(unlike, _UP_WITHIN_S) for guest in self._guests]

    def members(self) -> list[MemberStatus]:
        """Give the members whose guests run now, protected or not."""
        return [member for guest in self._guests for member in guest.running()]

    def refuse_lapse(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """See that its guests were protected all the time."""
        pairs = zip(self._guests, members, strict=True)
        refuse_states(
            [state for guest, one in pairs if guest.mode != "off" for state in guest.states_since(one, from_ns)]
        )

    def cpu_times(self) -> CpuTimes:
        """Read what QEMU, the members and the daemons of both hosts have used."""
        told = [host.ask("cpu") for host in self._loan.hosts]
        return CpuTimes(sum(one["server_ns"] for one in told), sum(one["host_ns"] for one in told))

    def kill_host(self) -> Blow:
        """Kill the members on the host where the server runs, each when it is protected."""
        if self.mode == "off":
            raise unprotected()
        active = self.await_protected()
        died = active[0].host
        if {one.host for one in active} != {died}:
            raise NotProtectedError("the guests of the server are not on the same host")
        survived = self._loan.other(died)
        struck = min(
            (guest.kill_member(one) for guest, one in zip(self._guests, active, strict=True)),
            key=lambda moment: moment.at_ns,
        )
        taken = [guest.await_taken(survived, _TAKEN_WITHIN_S) for guest in self._guests]
        running = max((guest.continued(survived, struck) for guest in self._guests), key=lambda moment: moment.at_ns)
        resume_ns = max(status.resume_ns or 0 for status in taken)
        return Blow(
            struck_ns=struck.at_ns,
            detected_ns=running.at_ns - resume_ns,
            running_ns=running.at_ns,
            died=died,
            survived=survived.name,
            error_ns=struck.error_ns + running.error_ns,
        )

    def stop(self) -> None:
        """End its guests on both hosts."""
        for guest in self._guests:
            guest.end()

    def last_words(self) -> str:
        """Give the end of what its guests wrote on their consoles, and of the logs of members and daemons."""
        said = []
        for host in self._loan.hosts:
            try:
                said.append(str(host.ask("words")["words"]))
            except StealtimeError as error:
                said.append(error.message)
        return "\n".join(said)


def configurations_of(loan: Loan, placement: Placement) -> list[ServerConfiguration]:
    """Say what the server in each guest is told.

    Raises:
        UsageError: The scenario has no address for a guest with media.
    """
    terms = loan.terms
    if placement == "together":
        return [ServerConfiguration(role="both", address=terms.guest_address)]
    if terms.media_guest is None:
        raise UsageError(
            "signalling and media cannot be apart: the scenario names the address of one guest",
            hint="name another one as `media_guest` under [define.hosts]",
        )
    return [
        ServerConfiguration(role="signalling", address=terms.guest_address, media_address=terms.media_guest),
        ServerConfiguration(role="media", address=terms.media_guest),
    ]


def guest_mac(address: str) -> str:
    """Give the address of a guest's card: the same for every guest at its IP address, and no other's on its network.

    52:54:00 is QEMU's own prefix.
    """
    return "52:54:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")[1:])


def _network(loan: Loan, address: str) -> dict[str, Any]:
    prefix = ipaddress.IPv4Interface(loan.terms.guest).network.prefixlen
    return {"address": f"{address}/{prefix}", "gateway": loan.terms.gateway, "mac": guest_mac(address)}
