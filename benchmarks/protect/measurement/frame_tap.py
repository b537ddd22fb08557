"""A tap on all devices of a network namespace: when frames passed, by which device, and between which UDP ports.

Run as a program it captures until its standard input is closed. Times are the kernel's, of when a frame passed, brought
over from the realtime to the monotonic clock: how late this process reads is not in them.
"""

import json
import select
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from stealtime.hosts.laboratory import Laboratory

Way = Literal["in", "out"]
"""Into this host's network by the device, or out of it: what a guest sends goes in by its TAP."""

_ALL_PROTOCOLS = 0x0003
"""ETH_P_ALL of linux/if_ether.h."""
_OUTGOING = 4
"""PACKET_OUTGOING of linux/if_packet.h."""
_IPV4 = 0x0800
_ETHERNET_BYTES = 14
_SHORTEST_BYTES = 28
"""The headers of IPv4 and UDP."""
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 64 << 20


@dataclass(frozen=True)
class Frame:
    """One that passed."""

    at_ns: int
    """Of the monotonic clock."""
    device: str
    way: Way
    ether_type: int
    source_port: int
    """Of UDP over IPv4; 0 in all other frames, as the next."""
    destination_port: int


class FrameTap:
    """Notes what passes a node of a laboratory while the context lasts."""

    def __init__(self, laboratory: Laboratory, node: str) -> None:
        self._laboratory = laboratory
        self._node = node
        self._path = laboratory.folder / f"frames-{node}"
        self._process: psutil.Popen | None = None

    def __enter__(self) -> "FrameTap":
        argv = [sys.executable, __file__, str(self._path)]
        self._process = self._laboratory.start(self._node, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"captures\n"
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process is not None
        lost, _ = self._process.communicate(timeout=30)
        assert int(lost) == 0, f"the tap lost {int(lost)} frames"

    def frames(self) -> list[Frame]:
        """Give all, in the order of their times."""
        return sorted((Frame(*json.loads(line)) for line in self._path.read_text().splitlines()), key=_time)


def _time(frame: Frame) -> int:
    return frame.at_ns


def _frame(data: bytes, address: tuple[Any, ...], stamp: bytes, ahead_ns: int) -> Frame:
    seconds, nanoseconds = struct.unpack("qq", stamp)
    device, ether_type, kind = address[0], address[1], address[2]
    ip = data[_ETHERNET_BYTES:]
    source_port = destination_port = 0
    if ether_type == _IPV4 and len(ip) >= _SHORTEST_BYTES and ip[9] == socket.IPPROTO_UDP:
        source_port, destination_port = struct.unpack_from("!HH", ip, 4 * (ip[0] & 0x0F))
    at_ns = seconds * 1_000_000_000 + nanoseconds - ahead_ns
    return Frame(at_ns, device, "out" if kind == _OUTGOING else "in", ether_type, source_port, destination_port)


def _capture(path: Path) -> int:
    ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as tap, path.open("w") as out:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sys.stdout.write("captures\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap in ready:
                data, control, _, address = tap.recvmsg(128, 64)
                stamps = [value for _, kind, value in control if kind == _SO_TIMESTAMPNS]
                one = _frame(data, address, stamps[0], ahead_ns)
                out.write(json.dumps(list(one.__dict__.values())) + "\n")
            elif sys.stdin in ready:
                break
        # PACKET_STATISTICS of SOL_PACKET: received and dropped since the last look.
        statistics = tap.getsockopt(263, 6, 8)
    return int.from_bytes(statistics[4:8], sys.byteorder)


if __name__ == "__main__":
    sys.stdout.write(str(_capture(Path(sys.argv[1]))))
