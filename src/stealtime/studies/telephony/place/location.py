"""Which front each phone turns to: phones know their domain only and ask its name server (RFC 3263, section 4).

Run as a program where the phones are, since the answer has to come over their network::

    python -m stealtime.studies.telephony.place.location NAME_SERVER DOMAIN udp|tcp PHONES SEED

It asks once, as phones of one resolver do within the time to live of the answer, and chooses for each phone anew by
priority and weight (RFC 2782).
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from dns.rdtypes.IN.SRV import SRV
    from dns.rrset import RRset

Protocol = Literal["udp", "tcp"]

_ANSWERED_WITHIN_S = 5.0
_ENDS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Target:
    """A server that an SRV record leads to."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Located(Target):
    """A server that phones were led to first."""

    phones: tuple[int, ...]
    """The numbers of the phones that turn to it, from 0 on."""
    further: tuple[Target, ...] = ()
    """Where these phones turn if it does not answer, in their order (RFC 3263, section 4.3)."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that these phones try, in their order."""
        return (self, *self.further)


def locate(
    client: Client, name_server: str, domain: str, *, phones: int, protocol: Protocol = "udp", seed: int = 0
) -> list[Located]:
    """Have phones find the servers of their domain; give those that any of them turns to.

    Args:
        client: Where the phones are.
        name_server: The address of who is asked.
        domain: That all phones belong to.
        phones: How many.
        protocol: By which they will reach the server.
        seed: Of their choice.

    Raises:
        StealtimeError: The name server does not answer, or knows of no such service.
    """
    argv = [sys.executable, "-m", __name__, name_server, domain, protocol, str(phones), str(seed)]
    asked = finished_at(client, argv, _ENDS_WITHIN_S, f"the name server at {name_server} was not asked")
    if asked.returncode != 0:
        last = asked.stderr.decode("utf-8", "replace").strip().splitlines()
        raise StealtimeError(
            f"the name server at {name_server} leads to no SIP server of {domain}: {last[-1] if last else 'no word'}"
        )
    found = []
    for one in json.loads(asked.stdout):
        first, *further = (Target(**target) for target in one["targets"])
        found.append(Located(first.name, first.address, first.port, tuple(one["phones"]), tuple(further)))
    return found


Order = tuple[tuple[str, int], ...]
"""Targets with their ports, the first one first."""


def choose(services: "RRset", phones: int, seed: int) -> dict[Order, list[int]]:
    """Give the phones of each order of targets in which some of them try these, by the SRV records of a service.

    Args:
        services: The records.
        phones: How many choose.
        seed: Of the choice.
    """
    # The order of records is drawn from the module's generator.
    random.seed(seed)
    chosen: dict[Order, list[int]] = {}
    for phone in range(phones):
        order = tuple((one.target.to_text(), one.port) for one in cast("list[SRV]", services.processing_order()))
        chosen.setdefault(order, []).append(phone)
    return chosen


def _ask(name_server: str, domain: str, protocol: str, phones: int, seed: int) -> list[dict[str, object]]:
    # Loaded by the process that asks alone.
    from dns.resolver import Resolver

    resolver = Resolver(configure=False)
    resolver.nameservers = [name_server]
    resolver.lifetime = _ANSWERED_WITHIN_S
    services = resolver.resolve(f"_sip._{protocol}.{domain}.", "SRV").rrset
    if services is None:
        raise ValueError("an answer without records")
    chosen = sorted(choose(services, phones, seed).items())
    names = {target for order, _ in chosen for target, _ in order}
    addresses = {name: next(iter(resolver.resolve(name, "A"))).to_text() for name in sorted(names)}
    return [
        {
            "targets": [
                {"name": target.rstrip("."), "address": addresses[target], "port": port} for target, port in order
            ],
            "phones": own,
        }
        for order, own in chosen
    ]


def _main(arguments: Sequence[str]) -> int:
    from dns.exception import DNSException

    name_server, domain, protocol, phones, seed = arguments
    try:
        found = _ask(name_server, domain, protocol, int(phones), int(seed))
    except (DNSException, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
