"""What is lost around those who talk with guests: at their own sockets, and on the links of their network.

Sockets are counted by the kernel for a whole network namespace (``/proc/net/snmp``; MIB objects of RFC 4113 and RFC
4022, and Linux's own). So these are of the phones alone where they have a namespace, and of all programs of the machine
where they have not. Links are counted where the network is made of namespaces of this machine.

A datagram for whose address nobody answers (ARP) is dropped without a count in a namespace: it was sent, and no device
has passed it (``/proc/net/dev``). It is as lost as one that a link drops.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

_READ_WITHIN_S = 10.0
_DEVICES, _SENT = " face |", 9
"""In ``/proc/net/dev``: the heading above the devices; where, after a device's name, the packets are that it sent."""


@dataclass(frozen=True)
class Drops:
    """Counted since the beginning, or between two moments."""

    datagrams: int
    """Of UDP that found no room at a socket, on their way in or out."""
    segments_sent_again: int
    """Of TCP."""
    frames: int | None
    """That the links of the network lost, or never got; None: nobody here can count them."""
    connections_opened: int = 0
    """Not lost, but counted beside: of TCP, that were begun from there."""
    datagrams_sent: int = 0
    """As ``connections_opened``: of UDP, that were handed to a device."""
    frames_passed: int = 0
    """As ``connections_opened``: that all devices there have passed on."""

    def since(self, earlier: "Drops") -> "Drops":
        datagrams_sent, frames_passed = (
            self.datagrams_sent - earlier.datagrams_sent,
            self.frames_passed - earlier.frames_passed,
        )
        known = self.frames is not None and earlier.frames is not None
        lost = (self.frames or 0) - (earlier.frames or 0)
        return Drops(
            self.datagrams - earlier.datagrams,
            self.segments_sent_again - earlier.segments_sent_again,
            lost + max(0, datagrams_sent - frames_passed) if known else None,
            self.connections_opened - earlier.connections_opened,
            datagrams_sent,
            frames_passed,
        )


def read_drops(client: Client) -> Drops:
    """Read what has been lost so far around a client.

    Raises:
        StealtimeError: Its counters cannot be read.
    """
    argv = ["cat", "/proc/net/snmp", "/proc/net/dev"]
    read = finished_at(client, argv, _READ_WITHIN_S, "the phones' /proc/net/snmp was not read")
    text = read.stdout.decode()
    udp, tcp = (_counters(text, protocol) for protocol in ("Udp", "Tcp"))
    try:
        # InErrors holds RcvbufErrors (net/ipv4/udp.c), and datagrams that arrived damaged, for which no socket can.
        datagrams = udp["InErrors"] - udp.get("InCsumErrors", 0) + udp["SndbufErrors"]
        return Drops(
            datagrams,
            tcp["RetransSegs"],
            client.frames_dropped(),
            tcp["ActiveOpens"],
            udp["OutDatagrams"],
            _frames_passed(text),
        )
    except KeyError as error:
        raise StealtimeError(f"the phones' /proc/net/snmp does not have {error}") from error


def _counters(text: str, protocol: str) -> Mapping[str, int]:
    """Read the counters of a protocol: a line with their names, then one with their values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{protocol}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=False)) if len(lines) == 2 else {}


def _frames_passed(text: str) -> int:
    """Add up the packets that devices sent, from a text that ends with ``/proc/net/dev``."""
    _, _, devices = text.partition(_DEVICES)
    return sum(int(line.partition(":")[2].split()[_SENT]) for line in devices.splitlines()[1:])
