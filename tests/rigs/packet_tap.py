"""What a tap on a device of a network namespace gives: UDP datagrams over IPv4, whoever sends them."""

import select
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

_ETHERNET = 14
_IPV4 = b"\x08\x00"
_SHORTEST = 28
"""The headers of IPv4 and UDP."""
_ALL_PROTOCOLS = 0x0003
"""ETH_P_ALL of linux/if_ether.h: what is sent, too."""


@dataclass(frozen=True)
class UdpDatagram:
    """One that passed."""

    source: str
    source_port: int
    destination_port: int
    payload: bytes


def udp_of(frame: bytes) -> UdpDatagram | None:
    """Give the datagram in an Ethernet frame; None for any other frame."""
    ip = frame[_ETHERNET:]
    if frame[12:14] != _IPV4 or len(ip) < _SHORTEST or ip[9] != socket.IPPROTO_UDP:
        return None
    udp = ip[4 * (ip[0] & 0x0F) :]
    return UdpDatagram(
        source=socket.inet_ntoa(ip[12:16]),
        source_port=int.from_bytes(udp[0:2]),
        destination_port=int.from_bytes(udp[2:4]),
        payload=udp[8 : int.from_bytes(udp[4:6])],
    )


def capture(device: str, on_datagram: Callable[[UdpDatagram], None]) -> int:
    """Capture until standard input is closed, having said ``captures`` first; give how many frames the tap lost."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.bind((device, _ALL_PROTOCOLS))
        sys.stdout.write("captures\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap in ready:
                found = udp_of(tap.recv(65536))
                if found is not None:
                    on_datagram(found)
            elif sys.stdin in ready:
                break
        # PACKET_STATISTICS of SOL_PACKET: received and dropped since the last look.
        statistics = tap.getsockopt(263, 6, 8)
    return int.from_bytes(statistics[4:8], sys.byteorder)
