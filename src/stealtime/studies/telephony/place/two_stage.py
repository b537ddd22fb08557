"""Two stages: fronts that hash, and several protected primaries whose guests have the same standby (n x 1).

As in figure 1 of Patnaik et al. Each primary is a guest on a host of its own, with registrations, calls and media of
its own; one more host backs them all, or several do in turn (n x m).
"""

from collections.abc import Callable, Sequence
from typing import Any

from stealtime.hosts.guest import Fault, Guest
from stealtime.hosts.host import FaultKind
from stealtime.hosts.namespace_testbed import ALL_HOSTS
from stealtime.hosts.testbed import Testbed
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.image import Size
from stealtime.studies.telephony.parameters import Mode
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.fronts import Fronts
from stealtime.studies.telephony.place.guest import UP_WITHIN_S, USUAL_INTERVALS, GuestsPlace, machine_of
from stealtime.vocabulary.errors import StealtimeError

_HOMES = (0, 2, 3)
"""The numbers of the hosts of primaries, in the order in which they are added; that between them is the standby."""
_FIRST_STANDBY = 1
PRIMARY_HOSTS = tuple(ALL_HOSTS[home] for home in _HOMES)
"""In a laboratory."""
MOST_PRIMARIES = len(_HOMES)


def standby_numbers(primaries: int, standbys: int) -> tuple[int, ...]:
    """Give the numbers of the hosts that back so many primaries: the usual one, then those behind all primaries'.

    Args:
        primaries: How many there are in the end.
        standbys: How many back them.
    """
    behind = max(_FIRST_STANDBY, *_HOMES[:primaries]) + 1
    return (_FIRST_STANDBY, *range(behind, behind + standbys - 1))


class TwoStagePlace(GuestsPlace):
    """Fronts, primaries (``guests``), and the standby of all of them.

    Args:
        testbed: The hosts.
        fronts: The first stage, which is not started.
        name: What the machines' names begin with, new for each place.
        mode: How each primary is protected.
        primaries: How many there are to begin with.
        standbys: The numbers of the hosts that back them: the first primary has the first of these, and so on, in
            turn.
        machine: What is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self,
        testbed: Testbed,
        fronts: Fronts,
        name: str,
        mode: Mode,
        *,
        primaries: int,
        standbys: Sequence[int] = (_FIRST_STANDBY,),
        **machine: Any,
    ) -> None:
        if not 1 <= primaries <= MOST_PRIMARIES:
            raise StealtimeError(f"{primaries} primaries are not possible", hint=f"from 1 to {MOST_PRIMARIES} are")
        super().__init__(testbed, mode, cpus_of_each=int(machine.get("vcpus", 1)))
        self.fronts = fronts
        self._name = name
        self._machine = machine
        self._first = primaries
        self._standbys = standbys
        self._beginnings = 0

    @property
    def address(self) -> str:
        """That of the first front; phones ask the name server."""
        return next(iter(self.fronts.addresses.values()))

    @property
    def addresses(self) -> Sequence[str]:
        """Give that one."""
        return (self.address,)

    @property
    def media_address(self) -> str:
        """Where the first primary relays media: each relays those of its own calls."""
        return self.testbed.address(0)

    @property
    def homes(self) -> list[str]:
        return [guest.home for guest in self.guests]

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
            await_answer(self.client, guest.ip_address, UP_WITHIN_S, self.log_tail, guest.members)
        self.fronts.await_ready()
        self.await_protected()

    def add_primary(self, before_dealt: Callable[[], None] | None = None) -> Guest:
        """Boot one more primary beside those that serve, and have the fronts deal it its share of the users.

        Args:
            before_dealt: Is called when it is protected and answers, and no front knows of it yet.

        Raises:
            StealtimeError: There is no host for it, or it does not come up.
        """
        if len(self.guests) == MOST_PRIMARIES or _HOMES[len(self.guests)] in self._standbys:
            raise StealtimeError(f"there is no host for another primary beside {len(self.guests)}")
        guest = self._begin_primary()
        guest.await_ready()
        await_answer(self.client, guest.ip_address, UP_WITHIN_S, self.log_tail, guest.members)
        guest.await_ready()
        if before_dealt is not None:
            before_dealt()
        self.fronts.add(guest.ip_address)
        return guest

    def fill(self, primaries: int) -> None:
        """Add primaries until there are so many.

        Raises:
            StealtimeError: There are more, or one does not come up.
        """
        while len(self.guests) < primaries:
            self.add_primary()
        if len(self.guests) > primaries:
            raise StealtimeError(f"there are {len(self.guests)} primaries already, not {primaries}")

    def lose_host(self, kind: FaultKind = "killed") -> Fault:
        """Lose the host of the first primary when it is protected; give the times when its guest runs again.

        Raises:
            StealtimeError: It is not protected, or nobody took it over.
        """
        return self.lose_homes(self.guests[:1], kind)

    def lose_all_hosts(self, kind: FaultKind) -> Fault:
        """Lose the hosts of all primaries at once, each when it is protected; give the times when all run again.

        Raises:
            StealtimeError: As of one.
        """
        return self.lose_homes(self.guests, kind)

    def stop(self) -> None:
        """End all servers and all that runs on the hosts; the usual two receive machines again."""
        self.fronts.stop()
        super().stop()
        self.guests = []

    def log_tail(self) -> str:
        return f"{super().log_tail()}\n{self.fronts.log_tail()}"

    def _begin_primary(self) -> Guest:
        number = len(self.guests)
        address = self.testbed.address(number)
        size = Size(cpus=self._cpus_of_each)
        configuration = ServerConfiguration(
            role="both", address=address, cpus=size.cpus, fronts=tuple(self.fronts.addresses.values())
        )
        machine = {**machine_of(configuration, self.mode, USUAL_INTERVALS, size), **self._machine}
        name = f"{self._name}-{self._beginnings}-{number}"
        standby = self._standbys[number % len(self._standbys)]
        guest = self.testbed.guest(name, number=number, home=_HOMES[number], standby=standby, **machine)
        guest.start()
        self.guests.append(guest)
        return guest
