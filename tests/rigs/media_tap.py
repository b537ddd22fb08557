"""A tap in the client's namespace: writes a line for each UDP datagram that passes, told apart by its first bytes.

Run as a program it captures on a device until its standard input is closed. RFC 7983 tells DTLS from RTP.
"""

import hashlib
import json
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
from sip_capture import SIP_PORT, message_kind

from stealtime.protect.laboratory import CLIENT, Laboratory

Kind = Literal["sip", "dtls", "rtcp", "rtp"]
_ETHERNET = 14
_ALL_PROTOCOLS = 0x0003
"""ETH_P_ALL of linux/if_ether.h: what is sent, too."""


@dataclass(frozen=True)
class Datagram:
    """One that passed."""

    at_ns: int
    """Of the monotonic clock."""
    source: str
    source_port: int
    destination_port: int
    kind: Kind
    message: str
    """Of SIP: the method, or the status and the method."""
    stream: str
    """Of RTP: its synchronisation source and sequence number, which stand for its place in the key stream."""
    digest: str
    """Of all its bytes."""


class MediaTap:
    """Writes down what the client sends and gets while the context lasts."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._path = laboratory.folder / "media-tap"
        self._process: psutil.Popen | None = None

    def __enter__(self) -> "MediaTap":
        argv = [sys.executable, __file__, "clients", str(self._path)]
        self._process = self._laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"captures\n"
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process is not None
        self._process.communicate(timeout=30)

    def datagrams(self) -> list[Datagram]:
        """Give all, in the order in which they passed."""
        return [Datagram(**json.loads(line)) for line in self._path.read_text().splitlines()]


def _describe(ip: bytes) -> dict[str, Any] | None:
    udp = ip[4 * (ip[0] & 0x0F) :]
    ports = int.from_bytes(udp[0:2]), int.from_bytes(udp[2:4])
    payload = udp[8 : int.from_bytes(udp[4:6])]
    if len(payload) < 4:
        return None
    kind: Kind = "rtp"
    if SIP_PORT in ports:
        kind = "sip"
    elif 20 <= payload[0] <= 63:
        kind = "dtls"
    elif 192 <= payload[1] <= 223:
        kind = "rtcp"
    return {
        "source": socket.inet_ntoa(ip[12:16]),
        "source_port": ports[0],
        "destination_port": ports[1],
        "kind": kind,
        "message": message_kind(payload) if kind == "sip" else "",
        "stream": f"{payload[8:12].hex()}:{int.from_bytes(payload[2:4])}" if kind == "rtp" else "",
        "digest": hashlib.sha256(payload).hexdigest()[:16],
    }


def _capture(device: str, path: Path) -> None:
    with (
        path.open("w", buffering=1) as out,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as tap,
    ):
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.bind((device, _ALL_PROTOCOLS))
        sys.stdout.write("captures\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap not in ready:
                break
            frame = tap.recv(65536)
            ip = frame[_ETHERNET:]
            if frame[12:14] != b"\x08\x00" or len(ip) < 28 or ip[9] != socket.IPPROTO_UDP:
                continue
            if (found := _describe(ip)) is not None:
                out.write(json.dumps({"at_ns": time.monotonic_ns(), **found}) + "\n")


if __name__ == "__main__":
    _capture(sys.argv[1], Path(sys.argv[2]))
