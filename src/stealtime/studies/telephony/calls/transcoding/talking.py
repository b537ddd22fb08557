"""One end of all calls, run as a program where phones are: it says melodies, and writes down whatever packet comes.

It judges nothing: :mod:`.listening` does, when all is said. It reads its order as JSON from the file that its command
line names, binds its ports, prints ``ready``, and begins at the moment of the monotonic clock that it then reads from
standard input, in nanoseconds. What came is stamped by the kernel.
"""

import json
import random
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stealtime.studies.telephony.calls.transcoding.codecs import CODECS, PACKET_SAMPLES
from stealtime.studies.telephony.calls.transcoding.melody import PACKETS_OF_MELODY, melody, packets
from stealtime.studies.telephony.calls.urgency import urgent

READY = "ready"
PACKET_NS = 20_000_000
BEYOND = 1
"""Packets that each stream says after those that count: a coder holds the end of a packet until the next one comes."""
_HEADER = struct.Struct("!BBHII")
"""RTP without extensions (RFC 3550, section 5.1)."""
_VERSION_BITS = 0xC0
_VERSION = 0x80
_PAYLOAD_TYPE_BITS = 0x7F
_SEQUENCES, _NUMBERS = 1 << 16, 1 << 32
_SO_TIMESTAMPNS = 35
_SO_RXQ_OVFL = 40
"""Both as ``asm-generic/socket.h`` has them; Python does not name them."""
_TIMESPEC, _COUNT = struct.Struct("@ll"), struct.Struct("=I")
_ROOM = 1 << 20
_LARGEST = 2048
_ANCILLARY = 256
_LOOKS_S = 0.05
_QUIET_S = 1.0
"""Whoever has been silent for so long after the last word has said all."""
_LISTENS_S = 15.0
"""After the last word at most: an overloaded relay has voice of many seconds ago."""


@dataclass(frozen=True)
class Order:
    """What an end does.

    Attributes:
        address: Its own.
        ports: Where it speaks and hears, of each call.
        destinations: ``ADDRESS:PORT`` of the relay, of each call.
        codec: Its name.
        end: Its own: streams of different ends have different melodies.
        packets: Of each stream that count.
    """

    address: str
    ports: Sequence[int]
    destinations: Sequence[str]
    codec: str
    end: str
    packets: int


@dataclass
class _Records:
    """What came, in the order in which it was read."""

    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    """Stream, moment, payload type, sequence number, timestamp and source of each packet."""
    payloads: list[bytes] = field(default_factory=list)
    odd: int = 0
    """Datagrams that are no RTP with so many bytes of voice."""
    overflowed: dict[int, int] = field(default_factory=dict)
    """By stream: datagrams for which its socket had no room."""
    last_s: float = 0.0


def name_of(end: str, stream: int) -> str:
    """Name the melody of a stream."""
    return f"{end} {stream}"


class _End:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._sockets = [self._bound(port) for port in order.ports]
        self._records = _Records()
        self._is_over = threading.Event()

    def run(self, begins_ns: int, out: Path) -> None:
        # Of both threads: one of them waits for the other's hold of the interpreter.
        with urgent():
            hearing = threading.Thread(target=self._hear)
            hearing.start()
            sent_ns, refused = self._say(begins_ns)
            ends_s = time.monotonic()
            while time.monotonic() - max(ends_s, self._records.last_s) < _QUIET_S:
                if time.monotonic() - ends_s > _LISTENS_S:
                    break
                time.sleep(_LOOKS_S)
            self._is_over.set()
            hearing.join()
        came = self._records
        np.savez(
            out,
            sent_ns=sent_ns,
            rows=np.array(came.rows, dtype=np.int64).reshape(-1, 6),
            payloads=np.frombuffer(b"".join(came.payloads), dtype=np.uint8).reshape(-1, PACKET_SAMPLES),
            counts=np.array([begins_ns, refused, came.odd, sum(came.overflowed.values())], dtype=np.int64),
        )

    def _bound(self, port: int) -> socket.socket:
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        own.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        own.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        own.bind((self._order.address, port))
        own.setblocking(False)
        return own

    def _say(self, begins_ns: int) -> tuple[NDArray[np.int64], int]:
        """Say everything; give when each packet was handed to the kernel, and how many it refused."""
        order, count = self._order, len(self._sockets)
        codec = CODECS[order.codec]
        held = packets(codec)
        said = [[held[tone] for tone in melody(name_of(order.end, stream))] for stream in range(count)]
        targets = [(address, int(port)) for address, _, port in (one.rpartition(":") for one in order.destinations)]
        drawn = random.SystemRandom()
        firsts = [
            (drawn.randrange(_SEQUENCES), drawn.randrange(_NUMBERS), drawn.randrange(_NUMBERS)) for _ in range(count)
        ]
        sent_ns, refused = np.zeros((count, order.packets + BEYOND), dtype=np.int64), 0
        for number in range(order.packets + BEYOND):
            for stream in range(count):
                due_ns = due(begins_ns, stream, number, count)
                while (left_ns := due_ns - time.monotonic_ns()) > 0:
                    time.sleep(left_ns / 1e9)
                sequence, timestamp, source = firsts[stream]
                head = _HEADER.pack(
                    _VERSION,
                    codec.payload_type,
                    (sequence + number) % _SEQUENCES,
                    (timestamp + number * PACKET_SAMPLES) % _NUMBERS,
                    source,
                )
                sent_ns[stream, number] = time.monotonic_ns()
                try:
                    self._sockets[stream].sendto(head + said[stream][number % PACKETS_OF_MELODY], targets[stream])
                except OSError:
                    refused += 1
        return sent_ns, refused

    def _hear(self) -> None:
        waiting = select.epoll()
        streams = {own.fileno(): (stream, own) for stream, own in enumerate(self._sockets)}
        for number in streams:
            waiting.register(number, select.EPOLLIN)
        while not self._is_over.is_set():
            ready = waiting.poll(_LOOKS_S)
            # The kernel's stamps are of the other clock, which somebody may set meanwhile.
            real_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()
            for number, _ in ready:
                self._take(*streams[number], real_minus_monotonic_ns)

    def _take(self, stream: int, own: socket.socket, real_minus_monotonic_ns: int) -> None:
        came = self._records
        while True:
            try:
                data, ancillary, _, _ = own.recvmsg(_LARGEST, _ANCILLARY)
            except BlockingIOError:
                return
            except OSError:
                # A refusal of what we sent (ICMP), which this call tells.
                continue
            at_ns = time.monotonic_ns()
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                    seconds, nanoseconds = _TIMESPEC.unpack(value[: _TIMESPEC.size])
                    at_ns = seconds * 1_000_000_000 + nanoseconds - real_minus_monotonic_ns
                elif (level, kind) == (socket.SOL_SOCKET, _SO_RXQ_OVFL):
                    came.overflowed[stream] = _COUNT.unpack(value[: _COUNT.size])[0]
            came.last_s = time.monotonic()
            if len(data) != _HEADER.size + PACKET_SAMPLES or data[0] & _VERSION_BITS != _VERSION:
                came.odd += 1
                continue
            _, kind_bits, sequence, timestamp, source = _HEADER.unpack_from(data)
            came.rows.append((stream, at_ns, kind_bits & _PAYLOAD_TYPE_BITS, sequence, timestamp, source))
            came.payloads.append(data[_HEADER.size :])


def due(begins_ns: int, stream: int, number: int, streams: int) -> int:
    """Give when a packet is due: the streams are spread evenly over the 20 ms of a packet."""
    return begins_ns + number * PACKET_NS + stream * PACKET_NS // streams


def _main() -> None:
    order_path, out = Path(sys.argv[1]), Path(sys.argv[2])
    told: dict[str, Any] = json.loads(order_path.read_text())
    end = _End(Order(**told))
    # Made before it matters how long that takes.
    packets(CODECS[told["codec"]])
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    end.run(int(sys.stdin.readline()), out)


if __name__ == "__main__":
    _main()
