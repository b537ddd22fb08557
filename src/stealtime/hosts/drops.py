"""What is lost around those who talk with guests: at their own sockets, and on the links of their network.

Sockets are counted by the kernel for a whole network namespace (``/proc/net/snmp``; MIB objects of RFC 4113 and RFC
4022, and Linux's own). So these are of the phones alone where they have a namespace, and of all programs of the machine
where they have not. Links are counted where the network is made of namespaces of this machine.
"""

import json
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.hosts.client import Client

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

    def since(self, earlier: "Drops") -> "Drops":
        frames = None if self.frames is None or earlier.frames is None else self.frames - earlier.frames
        return Drops(self.datagrams - earlier.datagrams, self.segments_sent_again - earlier.segments_sent_again, frames)


def read_drops(client: "Client") -> Drops:
    """Read what has been lost so far around a client.

    Raises:
        StealtimeError: Its counters cannot be read.
    """
    reading = client.start(["cat", "/proc/net/snmp"], stdout=subprocess.PIPE)
    try:
        text, _ = reading.communicate(timeout=_READ_WITHIN_S)
    except subprocess.TimeoutExpired:
        reading.kill()
        reading.wait()
        raise StealtimeError(f"the phones' /proc/net/snmp was not read within {_READ_WITHIN_S:g} s") from None
    udp, tcp = (_counters(text.decode(), protocol) for protocol in ("Udp", "Tcp"))
    try:
        # InErrors holds RcvbufErrors (net/ipv4/udp.c), and datagrams that arrived damaged, for which no socket can.
        datagrams = udp["InErrors"] - udp.get("InCsumErrors", 0) + udp["SndbufErrors"]
        return Drops(datagrams, tcp["RetransSegs"], client.frames_dropped())
    except KeyError as error:
        raise StealtimeError(f"the phones' /proc/net/snmp does not have {error}") from error


def frames_dropped_by_devices(links: str, devices: Collection[str]) -> int:
    """Give how many frames some devices have dropped, from what ``ip -json -statistics link`` prints."""
    return sum(
        int(link["stats64"][way]["dropped"])
        for link in json.loads(links)
        if link["ifname"] in devices
        for way in ("rx", "tx")
    )


def frames_dropped_by_queues(queues: str, devices: Collection[str]) -> int:
    """Give how many frames the queues of some devices have dropped, from what ``tc -json -statistics qdisc`` prints.

    That is also what filters there dropped, which the device does not count (``sch_handle_ingress`` in net/core/dev.c).
    """
    return sum(int(queue.get("drops", 0)) for queue in json.loads(queues) if queue["dev"] in devices)


def _counters(text: str, protocol: str) -> Mapping[str, int]:
    """Read the counters of a protocol: a line with their names, then one with their values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{protocol}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=False)) if len(lines) == 2 else {}
