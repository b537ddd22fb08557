"""A tap in the client's namespace: writes a line for each UDP datagram that passes, told apart by its first bytes.

Run as a program it captures on a device until its standard input is closed. RFC 7983 tells DTLS from RTP.
"""

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
from packet_tap import UdpDatagram, capture
from sip_capture import SIP_PORT, message_kind
from voice_mark import VoiceMark, mark_of

from stealtime.hosts.laboratory import CLIENT, Laboratory

Kind = Literal["sip", "dtls", "rtcp", "rtp"]
_SHORTEST = 4
"""Shorter ones only keep a path open."""


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
    mark: VoiceMark | None = None
    """Of voice of ``stealtime-agent rtp``."""


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
        lost, _ = self._process.communicate(timeout=30)
        assert int(lost) == 0, f"the tap lost {int(lost)} frames"

    def datagrams(self) -> list[Datagram]:
        """Give all, in the order in which they passed."""
        return [_read(line) for line in self._path.read_text().splitlines()]


def _read(line: str) -> Datagram:
    fields = json.loads(line)
    mark = fields.pop("mark")
    return Datagram(**fields, mark=None if mark is None else VoiceMark(**mark))


def _describe(one: UdpDatagram) -> dict[str, Any]:
    payload, mark = one.payload, mark_of(one.payload)
    kind: Kind = "rtp"
    if SIP_PORT in (one.source_port, one.destination_port):
        kind = "sip"
    elif 20 <= payload[0] <= 63:
        kind = "dtls"
    elif 192 <= payload[1] <= 223:
        kind = "rtcp"
    return {
        "at_ns": one.at_ns,
        "source": one.source,
        "source_port": one.source_port,
        "destination_port": one.destination_port,
        "kind": kind,
        "message": message_kind(payload) if kind == "sip" else "",
        "stream": f"{payload[8:12].hex()}:{int.from_bytes(payload[2:4])}" if kind == "rtp" else "",
        "digest": hashlib.sha256(payload).hexdigest()[:16],
        "mark": None if mark is None else asdict(mark),
    }


def _capture(device: str, path: Path) -> int:
    with path.open("w", buffering=1) as out:

        def write(one: UdpDatagram) -> None:
            if len(one.payload) >= _SHORTEST:
                out.write(json.dumps(_describe(one)) + "\n")

        return capture(device, write)


if __name__ == "__main__":
    sys.stdout.write(str(_capture(sys.argv[1], Path(sys.argv[2]))))
