"""Two stages: fronts that hash, and several protected primaries whose guests have the same standby (n x 1).

As in figure 1 of Patnaik et al. Each primary is a guest on a host of its own, with registrations, calls and media of
its own; one more host backs them all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue

from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.stand import HOSTS, STANDBY, NotProtectedError, Stand, StandGuest, guest_address
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.client import Client, LaboratoryClient
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.fronts import Fronts
from stealtime.studies.telephony.place.guest import guests_cpu_times, kill_members, machine_of
from stealtime.studies.telephony.place.model import Blow, CpuTimes, Mode, unprotected
from stealtime.studies.telephony.place.steady import refuse_lapse
from stealtime.vocabulary.errors import StealtimeError

PRIMARY_HOSTS = ("a", "c", "d")
"""Where primaries are, in the order in which they are added."""
MOST_PRIMARIES = len(PRIMARY_HOSTS)

_UP_WITHIN_S = 120.0
_LAST_LINES = 25


class TwoStagePlace:
    """Fronts, primaries, and the standby of all of them.

    Args:
        stand: The hosts; its laboratory has those of :data:`PRIMARY_HOSTS` and the nodes of the first stage.
        name: What the machines' names begin with, new for each place.
        mode: How each primary is protected.
        primaries: How many there are to begin with.
        interval_ns: From one checkpoint to the next; None: the usual one.
        machine: What else is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self,
        stand: Stand,
        name: str,
        mode: Mode,
        *,
        primaries: int,
        interval_ns: int | None = None,
        **machine: Any,
    ) -> None:
        if not 1 <= primaries <= MOST_PRIMARIES:
            raise StealtimeError(f"{primaries} primaries are not possible", hint=f"from 1 to {MOST_PRIMARIES} are")
        self.stand = stand
        self.mode = mode
        self.client: Client = LaboratoryClient(stand.laboratory)
        self.fronts = Fronts(stand.laboratory, self.client)
        self.guests: list[StandGuest] = []
        """The primaries."""
        self._name = name
        self._interval_ns = interval_ns
        self._machine = machine
        self._first = primaries
        self._beginnings = 0

    @classmethod
    def of_parameters(
        cls, stand: Stand, name: str, parameters: Mapping[str, JsonValue], accelerator: str
    ) -> "TwoStagePlace":
        """Make one of the parameters of a cell, whose last primary is still to be added."""
        interval_ns, primaries = parameters.get("interval_ns"), parameters["primaries"]
        if not isinstance(primaries, int):
            raise TypeError(f"{primaries!r} is not a number")
        return cls(
            stand,
            name,
            cast("Mode", parameters["mode"]),
            primaries=primaries - 1,
            interval_ns=interval_ns if isinstance(interval_ns, int) else None,
            accelerator=accelerator,
        )

    @property
    def laboratory(self) -> Laboratory:
        """The networks around it."""
        return self.stand.laboratory

    @property
    def address(self) -> str:
        """That of the first front; phones ask the name server."""
        return next(iter(self.fronts.addresses.values()))

    @property
    def media_address(self) -> str:
        """Where the first primary relays media: each relays those of its own calls."""
        return guest_address(0)

    @property
    def homes(self) -> list[str]:
        """The hosts of the primaries."""
        return [guest.known_as for guest in self.guests]

    def start(self) -> None:
        """Boot the primaries, and start the first stage; does not wait."""
        self._beginnings += 1
        for _ in range(self._first):
            self._begin_primary()
        self.fronts.start([guest.ip_address for guest in self.guests])

    def begin_again(self) -> None:
        """Begin with the first primaries alone, and without any user, if one was added since.

        Raises:
            StealtimeError: They do not come up.
        """
        if len(self.guests) > self._first:
            self.stop()
            self.start()
            self.await_ready()

    def await_ready(self) -> None:
        """Wait until all primaries are protected as they shall be, and all servers answer."""
        self.await_protected()
        for guest in self.guests:
            await_answer(self.client, guest.ip_address, _UP_WITHIN_S, self.last_words, guest.refuse_end)
        self.fronts.await_ready()
        self.await_protected()

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until each primary is protected (in mode ``off``: runs); give their active members."""
        return [guest.await_ready(unlike, _UP_WITHIN_S) for guest in self.guests]

    def members(self) -> list[MemberStatus]:
        """Give the members whose guests run now, protected or not."""
        return [
            status
            for guest in self.guests
            for name in (guest.known_as, STANDBY)
            if (status := guest.running(name)) is not None
        ]

    def refuse_lapse(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """See that all primaries were protected all the time."""
        refuse_lapse(self.guests[: len(members)], members, from_ns)

    def cpu_times(self) -> CpuTimes:
        """Read what all primaries, and all else on their hosts and the standby, have used."""
        return guests_cpu_times(self.laboratory, [*self.homes, STANDBY], self.members())

    def add_primary(self, before_dealt: Callable[[], None] | None = None) -> StandGuest:
        """Boot one more primary beside those that serve, and have the fronts deal it its share of the users.

        Args:
            before_dealt: Is called when it is protected and answers, and no front knows of it yet.

        Raises:
            StealtimeError: There is no host for it, or it does not come up.
        """
        if len(self.guests) == MOST_PRIMARIES:
            raise StealtimeError(f"there is no host for another primary beside {len(self.guests)}")
        guest = self._begin_primary()
        guest.await_ready(within_s=_UP_WITHIN_S)
        await_answer(self.client, guest.ip_address, _UP_WITHIN_S, self.last_words, guest.refuse_end)
        guest.await_ready(within_s=_UP_WITHIN_S)
        if before_dealt is not None:
            before_dealt()
        self.fronts.add(guest.ip_address)
        return guest

    def kill_host(self, which: str | None = None) -> Blow:
        """Kill the host of one primary: its member, when it is protected; give the times when its guest runs again.

        Args:
            which: The host; None: that of the first primary.

        Raises:
            StealtimeError: It is not protected, or nobody took it over.
        """
        if self.mode == "off":
            raise unprotected()
        guest = self.guests[0 if which is None else self.homes.index(which)]
        active = guest.await_ready(within_s=_UP_WITHIN_S)
        if active.host != guest.known_as:
            raise NotProtectedError(f"the primary of {guest.known_as} is on its standby already")
        return kill_members([guest], [active], STANDBY)

    def stop(self) -> None:
        """End all servers and all that runs on the hosts; the usual two receive machines again."""
        self.fronts.stop()
        self.laboratory.mend_all()
        for host in list(self.stand.hosts):
            if host.name in HOSTS:
                self.laboratory.power_off(host.name)
                self.stand.start_daemon(host.name)
            else:
                self.stand.dismiss(host.name)
        self.guests = []

    def last_words(self) -> str:
        """Give the end of what primaries and fronts wrote, and of the logs of members and hosts."""
        consoles = sorted(self.stand.state.path.glob("*/*/console.log"))
        ends = [path.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:] for path in consoles]
        return "\n".join([*("\n".join(lines) for lines in ends), self.stand.last_words(), self.fronts.last_words()])

    def _begin_primary(self) -> StandGuest:
        number = len(self.guests)
        home = PRIMARY_HOSTS[number]
        if home not in HOSTS:
            self.stand.admit(home)
        address = guest_address(number)
        configuration = ServerConfiguration(role="both", address=address, fronts=tuple(self.fronts.addresses.values()))
        machine = {**machine_of(configuration, self.mode, self._interval_ns), **self._machine}
        guest = StandGuest(
            self.stand, f"{self._name}-{self._beginnings}{home}", number=number, known_as=home, node=home, **machine
        )
        guest.start()
        self.guests.append(guest)
        return guest
