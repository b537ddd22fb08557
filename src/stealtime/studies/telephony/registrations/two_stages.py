"""Two stages: a primary is added while phones register, then the host of another one dies while phones register.

Phones find their front by the name server. Every acknowledged one is asked for by way of another front, since no front
knows what another one was told.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from stealtime.hosts.guest import Fault
from stealtime.studies.telephony.loads import TwoStageFailoverParameters
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.location import Located, Protocol
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.failover import (
    LOST_SHOWN,
    await_first_answer,
    over_time,
    silence_ns,
    told_of,
)
from stealtime.studies.telephony.registrations.load import (
    Load,
    Registered,
    finish_load,
    fresh_names,
    registering,
    unknown_users,
)
from stealtime.studies.telephony.results import PrimaryAdded, PrimaryUsers, TwoStageFailover
from stealtime.studies.telephony.sipp.program import Sipp, start_sipp
from stealtime.vocabulary.errors import StealtimeError

_FIRST_PORT = 5100
"""Of the phones of each front: two SIPps that look for a free one at a time may find the same."""
_WHILE_ADDED_PER_S = 20.0
"""While a primary boots: enough to see that there is no moment at which a user is lost, too little to slow the boot."""
_BOOTED_WITHIN_S = 180.0
_RENEWED_PER_S = 100.0
_LATE_NS = 500_000_000
"""T1: a phone sends its request again over UDP then (RFC 3261, section 17.1.2.2)."""


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

    def unknown(self, users: Sequence[str], folder: Path) -> list[str]:
        """Ask for the registration of each user by way of another front than its own; give those that are unknown."""
        folder.mkdir()
        own = {self.users[phone]: front.address for front in self.fronts for phone in front.phones}
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

    each: Sequence[Registered]

    @property
    def sent_ns(self) -> dict[str, int]:
        """By user: when the first copy of the request was sent."""
        return {user: at_ns for one in self.each for user, at_ns in one.sent_ns.items()}

    @property
    def answered_ns(self) -> dict[str, int]:
        """By user: when it was acknowledged."""
        return {user: at_ns for one in self.each for user, at_ns in one.answered_ns.items()}

    @property
    def unanswered_ns(self) -> list[int]:
        """When those were sent that got no acknowledgement."""
        return [at_ns for one in self.each for at_ns in one.unanswered_ns]


def fail_over_of_several(
    place: TwoStagePlace, wanted: TwoStageFailoverParameters, duration_s: float, folder: Path
) -> TwoStageFailover:
    """Add a primary, then let the host of the first one die, each while phones register.

    Args:
        place: Fronts and primaries, one of which is still to be added.
        wanted: Of them and their phones.
        duration_s: How long they do so before the fault, and as long after it.
        folder: For the files of SIPp.

    Raises:
        NotProtectedError: A primary lost its standby before the fault.
        StealtimeError: One does not go on, or does not come up.
    """
    transport, rate_per_s = wanted.transport, wanted.rate_per_s
    added = add_primary(place, transport, folder / "added")
    count = max(2, round(2 * duration_s * rate_per_s))
    led = Led.by_names(place, Load(transport=transport, rate_per_s=rate_per_s, count=count, names=fresh_names()))
    active, from_ns = place.await_protected(), time.monotonic_ns()
    running = led.start(folder / "load")
    try:
        await_first_answer(running[0])
        time.sleep(led.load.duration_s / 2)
        place.check_protected(active, from_ns)
        fault = place.lose_host(wanted.fault)
        answers = Answers([finish_load(sipp) for sipp in running])
    finally:
        for sipp in running:
            sipp.end()
    acknowledged = sorted(answers.answered_ns)
    lost = led.unknown(acknowledged, folder / "asked")
    owners = _owners(place, acknowledged, folder)
    place.revive()
    return _result(led, answers, fault, lost, added, [sorted(users) for users in owners])


def add_primary(place: TwoStagePlace, transport: Transport, folder: Path) -> PrimaryAdded:
    """Add a primary to those that serve while phones register, and see whether any of them is lost meanwhile.

    Raises:
        StealtimeError: It does not come up, or the phones did not register until after it had.
    """
    folder.mkdir()
    count = round(_BOOTED_WITHIN_S * _WHILE_ADDED_PER_S)
    load = Load(transport=transport, rate_per_s=_WHILE_ADDED_PER_S, count=count, names=fresh_names())
    led = Led.by_names(place, load)
    ready_ns: list[int] = []
    running = led.start(folder / "load")
    try:
        await_first_answer(running[0])
        begun_ns = time.monotonic_ns()
        guest = place.add_primary(lambda: ready_ns.append(time.monotonic_ns()))
        dealt_ns = time.monotonic_ns()
        # As many steps of the fronts later, so that phones have met both.
        time.sleep((dealt_ns - ready_ns[0]) / 1e9)
        for sipp in running:
            sipp.begin_no_more()
        answers = Answers([finish_load(sipp) for sipp in running])
    finally:
        for sipp in running:
            sipp.end()
    if max(answers.sent_ns.values()) < dealt_ns:
        raise StealtimeError(f"no phone registered any more when a primary was added after {_BOOTED_WITHIN_S:g} s")
    acknowledged = sorted(answers.answered_ns)
    lost = led.unknown(acknowledged, folder / "asked")
    before = sorted(user for user, at_ns in answers.answered_ns.items() if at_ns < ready_ns[0])
    moved = _moved(place, transport, before, guest.ip_address, folder)
    return PrimaryAdded(
        host=guest.home,
        acknowledged=len(acknowledged),
        unanswered=len(answers.unanswered_ns),
        lost=len(lost),
        lost_users=lost[:LOST_SHOWN],
        before=len(before),
        moved=moved,
        boot_to_ready_ns=ready_ns[0] - begun_ns,
        ready_to_dealt_ns=dealt_ns - ready_ns[0],
    )


def longest_gap_ns(answered_ns: Sequence[int], until_ns: int) -> int | None:
    """Give the longest time between two answers that follow each other, both before a moment."""
    times = sorted(at_ns for at_ns in answered_ns if at_ns <= until_ns)
    return max((later - earlier for earlier, later in pairwise(times)), default=None)


def _moved(place: TwoStagePlace, transport: Transport, users: Sequence[str], primary: str, folder: Path) -> int:
    """Have users renew their registrations; give how many of them a primary knows then."""
    load = Load(transport=transport, rate_per_s=_RENEWED_PER_S, count=len(users))
    renewing = start_sipp(place.client, registering(load, place.address, users), folder / "renewed")
    try:
        finish_load(renewing)
    finally:
        renewing.end()
    (folder / "primary").mkdir()
    return len(users) - len(unknown_users(place.client, primary, users, folder / "primary"))


def _owners(place: TwoStagePlace, users: Sequence[str], folder: Path) -> list[set[str]]:
    """Ask each primary which users it knows itself; it takes no front's word for another one here."""
    known = []
    for guest in place.guests:
        unknown = unknown_users(place.client, guest.ip_address, users, folder / f"known-{guest.home}")
        known.append(set(users).difference(unknown))
    return known


def _result(
    led: Led, answers: Answers, fault: Fault, lost: list[str], added: PrimaryAdded, owners: Sequence[Sequence[str]]
) -> TwoStageFailover:
    sent, answered = answers.sent_ns, answers.answered_ns
    times = [[answered[user] for user in users] for users in owners]
    took_ns = {user: at_ns - sent[user] for user, at_ns in answered.items()}
    killed, others = times[0], [at_ns for each in times[1:] for at_ns in each]
    # Whose users they are nobody can say; those of the primaries that went on were answered.
    unanswered_ns = answers.unanswered_ns
    return TwoStageFailover(
        **told_of(fault, killed),
        rate_per_s=led.load.rate_per_s,
        seed=led.seed,
        fronts={front.name: len(front.phones) for front in led.fronts},
        sent=len(sent),
        acknowledged=len(answered),
        lost=len(lost),
        lost_users=lost[:LOST_SHOWN],
        unanswered=len(unanswered_ns),
        retransmissions=sum(one.finished.counts.retransmissions for one in answers.each),
        connections_failed=sum(one.finished.counts.reconnects for one in answers.each),
        primaries=[
            PrimaryUsers(
                host=host,
                users=len(each),
                silence_before_ns=longest_gap_ns(each, fault.struck_ns),
                silence_ns=silence_ns(each, unanswered_ns if number == 0 else [], fault.struck_ns),
                late=sum(took_ns[user] >= _LATE_NS for user in users),
            )
            for number, (host, users, each) in enumerate(zip(led.place.homes, owners, times, strict=True))
        ],
        added=added,
        others_over_time=over_time(others, fault.struck_ns),
    )
