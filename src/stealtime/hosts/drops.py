"""What is lost around those who talk with guests: at their own sockets, and on the links of their network.

Sockets are counted by the kernel for a whole network namespace (``/proc/net/snmp``; MIB objects of RFC 4113 and RFC
4022, and Linux's own). So these are of the phones alone where they have a namespace, and of all programs of the machine
where they have not. Links are counted where the network is made of namespaces of this machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

_READ_WITHIN_S = 10.0


@dataclass(frozen=True)
class Drops:
    """Counted since the beginning, or between two moments."""

    datagrams: int
    """Of UDP that found no room at a socket, on their way in or out."""
    segments_sent_again: int
    """Of TCP."""
    frames: int | None
    """That the links of the network lost; None: nobody here can count them."""
    connections_opened: int = 0
    """Not lost, but counted beside: of TCP, that were begun from there."""

    def since(self, earlier: "Drops") -> "Drops":
        frames = None if self.frames is None or earlier.frames is None else self.frames - earlier.frames
        return Drops(
            self.datagrams - earlier.datagrams,
            self.segments_sent_again - earlier.segments_sent_again,
            frames,
            self.connections_opened - earlier.connections_opened,
        )


def read_drops(client: Client) -> Drops:
    """Read what has been lost so far around a client.

    Raises:
        StealtimeError: Its counters cannot be read.
    """
    read = finished_at(client, ["cat", "/proc/net/snmp"], _READ_WITHIN_S, "the phones' /proc/net/snmp was not read")
    udp, tcp = (_counters(read.stdout.decode(), protocol) for protocol in ("Udp", "Tcp"))
    try:
        # InErrors holds RcvbufErrors (net/ipv4/udp.c), and datagrams that arrived damaged, for which no socket can.
        datagrams = udp["InErrors"] - udp.get("InCsumErrors", 0) + udp["SndbufErrors"]
        return Drops(datagrams, tcp["RetransSegs"], client.frames_dropped(), tcp["ActiveOpens"])
    except KeyError as error:
        raise StealtimeError(f"the phones' /proc/net/snmp does not have {error}") from error


def _counters(text: str, protocol: str) -> Mapping[str, int]:
    """Read the counters of a protocol: a line with their names, then one with their values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{protocol}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=False)) if len(lines) == 2 else {}
