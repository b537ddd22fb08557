"""A tap in the network namespace of a laboratory's node: counts SIP messages on the wire, apart from whoever sent them.

Run as a program it captures, by ``AF_PACKET`` on one device, until its standard input is closed; then it prints what it
counted as JSON.
"""

import json
import select
import socket
import subprocess
import sys
from collections import Counter
from typing import Any

import psutil

from stealtime.protect.laboratory import CLIENT, Laboratory

SIP_PORT = 5060
_ETHERNET = 14
_ALL_PROTOCOLS = 0x0003
"""ETH_P_ALL of linux/if_ether.h: what is sent, too."""


def sip_payload(frame: bytes) -> bytes | None:
    """Give the payload of a UDP datagram from or to SIP's port over IPv4; None for any other frame."""
    ip = frame[_ETHERNET:]
    if frame[12:14] != b"\x08\x00" or len(ip) < 28 or ip[9] != socket.IPPROTO_UDP:
        return None
    udp = ip[4 * (ip[0] & 0x0F) :]
    ports = int.from_bytes(udp[0:2]), int.from_bytes(udp[2:4])
    return udp[8 : int.from_bytes(udp[4:6])] if SIP_PORT in ports else None


def message_kind(payload: bytes) -> str:
    """Give the method of a request, or ``200 REGISTER`` for an answer to one."""
    first, _, rest = payload.partition(b"\r\n")
    words = first.split()
    if not words or words[0] != b"SIP/2.0":
        return words[0].decode("ascii", "replace") if words else ""
    method = next((line.split()[-1] for line in rest.split(b"\r\n") if line.lower().startswith(b"cseq:")), b"?")
    return f"{words[1].decode()} {method.decode('ascii', 'replace')}"


class Capture:
    """Counts the SIP messages that the client sends and gets, while the context lasts."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._process: psutil.Popen | None = None
        self.counts: Counter[str] = Counter()
        self.dropped = 0
        """Frames that the tap lost itself."""

    def __enter__(self) -> "Capture":
        argv = [sys.executable, __file__, "clients"]
        self._process = self._laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"captures\n"
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process is not None
        said, _ = self._process.communicate(timeout=30)
        document = json.loads(said)
        self.counts = Counter(document["counts"])
        self.dropped = document["dropped"]


def _capture(device: str) -> None:
    counts: Counter[str] = Counter()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.bind((device, _ALL_PROTOCOLS))
        sys.stdout.write("captures\n")
        sys.stdout.flush()
        while True:
            ready, _, _ = select.select([tap, sys.stdin], [], [])
            if tap in ready:
                frame = tap.recv(65536)
                payload = sip_payload(frame)
                if payload is not None:
                    counts[message_kind(payload)] += 1
            elif sys.stdin in ready:
                break
        # PACKET_STATISTICS of SOL_PACKET: received and dropped since the last look.
        statistics = tap.getsockopt(263, 6, 8)
    sys.stdout.write(json.dumps({"counts": counts, "dropped": int.from_bytes(statistics[4:8], sys.byteorder)}))


if __name__ == "__main__":
    _capture(sys.argv[1])
