"""A tap in the network namespace of a laboratory's node: counts SIP messages on the wire, apart from whoever sent them.

Run as a program it captures, by ``AF_PACKET`` on one device, until its standard input is closed; then it prints what it
counted as JSON.
"""

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import psutil
from packet_tap import UdpDatagram, capture

from stealtime.hosts.laboratory import CLIENT, Laboratory

SIP_PORT = 5060


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

    def count(one: UdpDatagram) -> None:
        if SIP_PORT in (one.source_port, one.destination_port):
            counts[message_kind(one.payload)] += 1

    dropped = capture(device, count)
    sys.stdout.write(json.dumps({"counts": counts, "dropped": dropped}))


if __name__ == "__main__":
    _capture(sys.argv[1])
