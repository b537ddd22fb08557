"""Phones that register: the load, what came of it user by user, and whom the server knows afterwards."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stealtime.hosts.client import Client
from stealtime.hosts.host import CpuTimes
from stealtime.studies.telephony.appliance.configuration import AUTHENTICATED_DOMAIN, password_of
from stealtime.studies.telephony.generators.evidence import Exchange, Offering
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.studies.telephony.generators.offering import Offered, offer
from stealtime.studies.telephony.generators.work import Work
from stealtime.studies.telephony.lengths import ANSWERED_BY_NS
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.saturation import Attempt
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.studies.telephony.sipp.program import (
    ANSWERED_WITHIN_S,
    Finished,
    Sipp,
    SippOrder,
    scenario_path,
    start_sipp,
)
from stealtime.vocabulary.errors import StealtimeError

_ASKED_PER_S = 400.0
"""Questions for registrations, after the measurement; a translated server answers several times as many."""
_ASKING_S = 30.0
_TRIES = 3

_serials = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Registrations to come.

    Attributes:
        transport: How phones reach the server.
        rate_per_s: How many register in a second.
        count: How many register in all, each once.
        names: What names begin with; those of an earlier load with the same beginning are registered anew.
        auth: Whether the server asks each phone for its password (RFC 3261, section 22).
        generators: How many SIPps offer it together.
    """

    transport: Transport
    rate_per_s: float
    count: int
    names: str = "phone"
    auth: bool = False
    generators: int = 1

    @property
    def users(self) -> list[str]:
        """The names, all different."""
        return [f"{self.names}{number:06d}" for number in range(self.count)]

    @property
    def duration_s(self) -> float:
        """How long it lasts, unless the server lags behind."""
        return self.count / self.rate_per_s


@dataclass(frozen=True)
class Registered:
    """What came of a load."""

    sent_ns: dict[str, int]
    """By user: when the first copy of the request was sent."""
    answered_ns: dict[str, int]
    """By user: when it was acknowledged, with 200."""
    finished: Finished | Offered
    """What SIPp saw, or several saw that offered the load together."""
    limit: Limit | None = None
    """What kept the load from being borne; None where nobody looked."""
    work: Work | None = None
    """What the servers did; None where nobody counted."""
    begun_ns: int = 0
    """When the load began to be offered, where CPU times were read."""

    @property
    def response_ns(self) -> list[int]:
        """How long each acknowledged registration took, from the first copy of its request on, in ascending order."""
        return sorted(at_ns - self.sent_ns[user] for user, at_ns in self.answered_ns.items())

    @property
    def offered_per_s(self) -> float:
        """What SIPp sent, without retransmissions."""
        return offered_per_s(self.sent_ns.values())

    @property
    def unanswered_ns(self) -> list[int]:
        """When those were sent first that got no acknowledgement in time, or a refusal."""
        return [at_ns for user, at_ns in self.sent_ns.items() if user not in self.answered_ns]

    @property
    def unanswered(self) -> int:
        return len(self.unanswered_ns)


def fresh_names() -> str:
    """Give a beginning of names that no phone of this process had before."""
    return f"phone{next(_serials)}-"


def start_load(place: Place, load: Load, folder: Path) -> Sipp:
    """Have phones begin to register; does not wait."""
    return start_sipp(place.client, registering(load, place.address, load.users), folder)


def registering(load: Load, address: str, users: Sequence[str]) -> SippOrder:
    """Give what SIPp does for some phones of a load: they register at an address, at their share of its rate."""
    return SippOrder(
        scenario=scenario_path("register_authenticated" if load.auth else "register"),
        target=address,
        transport=load.transport,
        calls=len(users),
        rate_per_s=load.rate_per_s * len(users) / load.count,
        users=[_with_password(user) for user in users] if load.auth else users,
        limit_s=load.duration_s + ANSWERED_WITHIN_S,
        options=("-key", "domain", AUTHENTICATED_DOMAIN) if load.auth else (),
    )


def finish_load(sipp: Sipp) -> Registered:
    """Wait for the end of a load; give what came of it.

    Raises:
        StealtimeError: SIPp ended early, sent nothing, or counted something else than its log holds.
    """
    return _registered(sipp.wait())


def run_load(place: Place, load: Load, folder: Path) -> tuple[Registered, CpuTimes, int]:
    """Have phones register; give what came of it, the CPU time of the server and its host, and how long it took in ns.

    Of several appliances each has its own phones, and its own generators. The time that SIPp waits for late answers is
    in it only as long as there are any.

    Raises:
        StealtimeError: As :func:`finish_load`.
    """
    generators = load.generators * len(place.addresses)
    dealt = [load.users[number::generators] for number in range(generators)]
    orders = [
        registering(load, place.addresses[number % len(place.addresses)], users)
        for number, users in enumerate(dealt)
        if users
    ]
    offered = offer(place, orders, folder)
    registered = _registered(offered)
    limit = offered.limit_of(_offering(load, registered, offered))
    return (
        replace(registered, limit=limit, work=offered.work, begun_ns=offered.begun_ns),
        offered.used,
        offered.elapsed_ns,
    )


def attempt_rate(place: Place, load: Load, try_s: float, folder: Path) -> Attempt:
    """Try the rate of a load for a while, for the search of the highest one."""
    registered, _, _ = run_load(place, load, folder)
    return Attempt(
        rate_per_s=load.rate_per_s,
        duration_s=try_s,
        offered_per_s=registered.offered_per_s,
        sent=len(registered.sent_ns),
        acknowledged=len(registered.answered_ns),
        retransmissions=registered.finished.counts.retransmissions,
        late=sum(response_ns > ANSWERED_BY_NS for response_ns in registered.response_ns),
        limit=registered.limit,
    )


def unknown_users(client: Client, address: str, users: Sequence[str], folder: Path) -> list[str]:
    """Ask a server for the registration of each user; give those that it does not know.

    Raises:
        StealtimeError: It does not answer for some of them.
    """
    unasked, known, found = list(users), set[str](), list[str]()
    for number in range(_TRIES):
        if not unasked:
            break
        order = SippOrder(
            scenario=scenario_path("query"),
            target=address,
            calls=len(unasked),
            rate_per_s=_ASKED_PER_S,
            users=unasked,
            limit_s=len(unasked) / _ASKED_PER_S + _ASKING_S,
            at_once=2_000,
        )
        for message in start_sipp(client, order, folder / f"asked-{number}").wait().messages:
            if message.kind == "contact":
                known.add(message.user)
                if message.status != message.user:
                    found.append(message.user)
        unasked = [user for user in unasked if user not in known]
    if unasked:
        raise StealtimeError(f"the server does not say whether it knows {unasked[0]} and {len(unasked) - 1} others")
    return found


def offered_per_s(sent_ns: Iterable[int]) -> float:
    """Give the rate at which something was sent; 0 where it cannot be told."""
    times = sorted(sent_ns)
    return 1e9 * (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0


def first_times(messages: Iterable[LoggedMessage], kind: str) -> dict[str, int]:
    """Give when each user had its first message of a kind."""
    times: dict[str, int] = {}
    for message in messages:
        if message.kind == kind:
            times.setdefault(message.user, message.at_ns)
    return times


def _registered(finished: Finished | Offered) -> Registered:
    messages = finished.messages
    sent, answered = first_times(messages, "sent"), first_times(messages, "answered")
    if not sent:
        raise StealtimeError(f"SIPp sent no registration: {finished.said}", hint="is its address or a port taken?")
    if len(answered) != finished.counts.successful:
        raise StealtimeError(
            f"SIPp counted {finished.counts.successful} registrations and logged {len(answered)}: {finished.said}"
        )
    return Registered(sent, answered, finished)


def _offering(load: Load, registered: Registered, offered: Offered) -> Offering:
    return Offering(
        transport=load.transport,
        rate_per_s=load.rate_per_s,
        offered_per_s=registered.offered_per_s,
        retransmissions=registered.finished.counts.retransmissions,
        sends=offered.sends,
        exchanges=[Exchange(at_ns, registered.answered_ns.get(user)) for user, at_ns in registered.sent_ns.items()],
    )


def _with_password(user: str) -> str:
    """Give the line of SIPp's file of users for a phone that is asked for its password."""
    return f"{user};[authentication username={user} password={password_of(user)}]"
