"""What a tap on a device of a network namespace gives: UDP datagrams over IPv4, whoever sends them."""

import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

_ETHERNET = 14
_IPV4 = b"\x08\x00"
_SHORTEST = 28
"""The headers of IPv4 and UDP."""
_STAMPS = 35
"""SO_TIMESTAMPNS, and the control message of that name: seconds and nanoseconds of the real-time clock."""
_READINGS = 5
_ALL_PROTOCOLS = 0x0003
"""ETH_P_ALL of linux/if_ether.h: what is sent, too."""


@dataclass(frozen=True)
class UdpDatagram:
    """One that passed."""

    at_ns: int
    """When the kernel had it, by the monotonic clock; of what comes in it is the stamp that its receiver gets."""
    source: str
    source_port: int
    destination_port: int
    payload: bytes


def udp_of(frame: bytes, at_ns: int) -> UdpDatagram | None:
    """Give the datagram in an Ethernet frame that passed then; None for any other frame."""
    ip = frame[_ETHERNET:]
    if frame[12:14] != _IPV4 or len(ip) < _SHORTEST or ip[9] != socket.IPPROTO_UDP:
        return None
    udp = ip[4 * (ip[0] & 0x0F) :]
    return UdpDatagram(
        at_ns=at_ns,
        source=socket.inet_ntoa(ip[12:16]),
        source_port=int.from_bytes(udp[0:2]),
        destination_port=int.from_bytes(udp[2:4]),
        payload=udp[8 : int.from_bytes(udp[4:6])],
    )


def capture(device: str, on_datagram: Callable[[UdpDatagram], None]) -> int:
    """Capture until standard input is closed, having said ``captures`` first; give how many frames the tap lost."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)
        tap.bind((device, _ALL_PROTOCOLS))
        sys.stdout.write("captures\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap in ready:
                frame, controls, _, _ = tap.recvmsg(65536, socket.CMSG_SPACE(16))
                stamp = next(data for _, kind, data in controls if kind == _STAMPS)
                seconds, nanoseconds = (int.from_bytes(part, sys.byteorder) for part in (stamp[:8], stamp[8:16]))
                found = udp_of(frame, seconds * 1_000_000_000 + nanoseconds - _real_minus_monotonic_ns())
                if found is not None:
                    on_datagram(found)
            elif sys.stdin in ready:
                break
        # PACKET_STATISTICS of SOL_PACKET: received and dropped since the last look.
        statistics = tap.getsockopt(263, 6, 8)
    return int.from_bytes(statistics[4:8], sys.byteorder)


def _real_minus_monotonic_ns() -> int:
    """Compare both clocks; of several readings the one that was interrupted least."""
    readings = []
    for _ in range(_READINGS):
        before_ns, real_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after_ns - before_ns, real_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]
