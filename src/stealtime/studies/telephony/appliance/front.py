"""What a front is told: a Kamailio without state that hands requests on to primaries by a hash of the user's name.

Users are dealt out in slots, as Singh and Schulzrinne deal the hash table to clusters (SPECTS 2005), and each primary
has its share of the slots: one that is added takes some from every other, and all users of the other slots stay. Where
two deals differ, a front names the other primary in a header, and the primary asks there for users it does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.studies.telephony.appliance.configuration import (
    SERVE,
    SIP_PORT,
    filled,
    keep_kamailio,
    loaded,
    serve_script,
)
from stealtime.studies.telephony.appliance.root import FRONT_MODULES, Role

CONTROL_SOCKET = "control"
"""Where a front takes commands, in its folder ``/run``."""
DESTINATIONS = "destinations"
"""What it reads the deals from, in the same folder."""
RELOAD = "dispatcher.reload"
"""The command by which it reads them anew."""
RELOAD_EVERY_S = 1.0
"""It refuses the command earlier than so long after the last one."""
SLOTS = 60
"""The least number that up to six primaries share evenly."""

_PRESENT, _OTHER = 1, 2
_SHARED_MEMORY_BYTES = 64 << 20
"""Enough for the connections of thousands of phones: it keeps nothing else."""


@dataclass(frozen=True, kw_only=True)
class FrontConfiguration:
    """A front.

    Attributes:
        address: Its own IPv4 address.
        udp_workers: Processes that it has for UDP.
        tcp_workers: Processes that it has for TCP.
        tcp_connections: How many TCP connections it takes.
    """

    address: str
    udp_workers: int = 2
    tcp_workers: int = 2
    tcp_connections: int = 16384

    @property
    def role(self) -> Role:
        return "front"

    @property
    def files(self) -> dict[str, str]:
        told = {
            "udp_workers": self.udp_workers,
            "tcp_workers": self.tcp_workers,
            "tcp_connections": self.tcp_connections,
            "address": self.address,
            "sip_port": SIP_PORT,
            "modules": loaded(FRONT_MODULES),
            "control": f"/run/{CONTROL_SOCKET}",
            "list": f"/run/{DESTINATIONS}",
            "present": _PRESENT,
            "other": _OTHER,
        }
        return {SERVE: serve_script([keep_kamailio(_SHARED_MEMORY_BYTES)]), "kamailio.cfg": filled("front.cfg", told)}


def dealt(primaries: Sequence[str]) -> list[str]:
    """Deal the slots to primaries, each of which takes its share evenly from those before it.

    Args:
        primaries: Their addresses, in the order in which they were added.
    """
    slots = [primaries[0]] * SLOTS
    for count, primary in enumerate(primaries[1:], start=2):
        for earlier in primaries[: count - 1]:
            own = [slot for slot, owner in enumerate(slots) if owner == earlier]
            for slot in own[SLOTS // count :]:
                slots[slot] = primary
    return slots


def destinations(present: Sequence[str], other: Sequence[str] | None = None) -> str:
    """Give the file of a front's deals: where users are, and where else they may still be known.

    Args:
        present: The slots as they are dealt.
        other: As they are dealt otherwise; None: there is no other deal.
    """
    # A number as the user makes each slot's URI another one: a set has no URI twice.
    lines = [
        f"{number} sip:{slot}@{address}:{SIP_PORT}\n"
        for number, slots in ((_PRESENT, present), (_OTHER, present if other is None else other))
        for slot, address in enumerate(slots)
    ]
    return "".join(lines)
