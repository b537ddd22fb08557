"""Phones that the name server led to their fronts, and what came of them at all fronts together."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stealtime.studies.telephony.appliance.names import DOMAIN
from stealtime.studies.telephony.place.location import Located, Protocol
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.load import Load, Registered, registering, unknown_users
from stealtime.studies.telephony.registrations.turning import Turned
from stealtime.studies.telephony.registrations.turning_phones import Phone, PhonesOrder
from stealtime.studies.telephony.sipp.program import Sipp, start_sipp

_FIRST_PORT = 5100
"""Of the phones of each front: two SIPps that look for a free one at a time may find the same."""


@dataclass(frozen=True)
class Led:
    """Phones of a load, with the front that each was led to."""

    place: TwoStagePlace
    load: Load
    fronts: Sequence[Located]
    users: Sequence[str]
    """The name of each phone by its number. They are in no order: a hash of names that follow each other has the users
    of a primary follow each other, and those of the others would seem to be silent meanwhile."""
    seed: int
    """Of both."""

    @classmethod
    def by_names(cls, place: TwoStagePlace, load: Load) -> "Led":
        """Have the phones of a load ask the name server."""
        protocol: Protocol = "udp" if load.transport == "udp" else "tcp"
        seed = random.SystemRandom().getrandbits(32)
        fronts = place.fronts.locate(phones=load.count, protocol=protocol, seed=seed)
        return cls(place, load, fronts, random.Random(seed).sample(load.users, load.count), seed)  # noqa: S311

    def start(self, folder: Path) -> list[Sipp]:
        """Have them begin to register, each at its front; does not wait."""
        folder.mkdir()
        return [self._start_at(front, _FIRST_PORT + number, folder) for number, front in enumerate(self.fronts)]

    @property
    def own_fronts(self) -> dict[str, str]:
        """By user: the address of the front that it turns to first."""
        return {self.users[phone]: front.address for front in self.fronts for phone in front.phones}

    def turning(self, timer_f_ns: int) -> PhonesOrder:
        """Give what phones of our own do for the same load: each turns to its next target when timer F ends."""
        targets = {
            phone: tuple((one.address, one.port) for one in front.targets)
            for front in self.fronts
            for phone in front.phones
        }
        step_ns = 1e9 / self.load.rate_per_s
        return PhonesOrder(
            address=self.place.client.address,
            domain=DOMAIN,
            transport=self.load.transport,
            timer_f_ns=timer_f_ns,
            phones=tuple(
                Phone(user, round(number * step_ns), targets[number]) for number, user in enumerate(self.users)
            ),
        )

    def unknown(self, users: Sequence[str], folder: Path, told_by: Mapping[str, str] | None = None) -> list[str]:
        """Ask for the registration of each user by way of another front than its own; give those that are unknown.

        Args:
            users: Who is asked for.
            folder: For the files of SIPp.
            told_by: By user: the address of the front that acknowledged it; None: the one that it turned to first.
        """
        folder.mkdir()
        own = self.own_fronts if told_by is None else told_by
        addresses = list(self.place.fronts.addresses.values())
        found: list[str] = []
        for number, address in enumerate(addresses):
            # Those whose own front is the one before this.
            asked = [user for user in users if own[user] == addresses[number - 1]]
            found += unknown_users(self.place.client, address, asked, folder / str(number))
        return found

    def _start_at(self, front: Located, own_port: int, folder: Path) -> Sipp:
        order = registering(self.load, front.address, [self.users[phone] for phone in front.phones])
        order = replace(order, port=front.port, options=("-p", str(own_port)))
        return start_sipp(self.place.client, order, folder / front.name)


@dataclass(frozen=True)
class Answers:
    """What came of a load over all fronts."""

    sent_ns: Mapping[str, int]
    """By user: when the first copy of the request was sent."""
    answered_ns: Mapping[str, int]
    """By user: when it was acknowledged."""
    retransmissions: int
    connections_failed: int

    @classmethod
    def of_sipp(cls, each: Sequence[Registered]) -> "Answers":
        """Put together what the SIPps of all fronts saw."""
        return cls(
            {user: at_ns for one in each for user, at_ns in one.sent_ns.items()},
            {user: at_ns for one in each for user, at_ns in one.answered_ns.items()},
            sum(one.finished.counts.retransmissions for one in each),
            sum(one.finished.counts.reconnects for one in each),
        )

    @classmethod
    def of_turned(cls, turned: Turned, fronts: Sequence[str], *, is_over_tcp: bool) -> "Answers":
        """Take what phones saw that turn to the next front."""
        undelivered = sum(turned.count(address, "undelivered") for address in fronts)
        return cls(turned.sent_ns, turned.answered_ns, turned.sent_again, undelivered if is_over_tcp else 0)

    @property
    def unanswered_ns(self) -> list[int]:
        """When those were sent that got no acknowledgement."""
        return [at_ns for user, at_ns in self.sent_ns.items() if user not in self.answered_ns]
