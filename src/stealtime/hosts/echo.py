"""ICMP echo requests at a set rate (RFC 792): how long a guest takes to answer, whatever runs in it.

``python -m stealtime.hosts.echo ADDRESS COUNT INTERVAL_NS`` prints the round trips. Each request is sent when it is
due, answered or not, and its time counts from then: a stall counts for all that it delays.
"""

import contextlib
import json
import math
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence

from stealtime.hosts.client import Client, finished_at
from stealtime.vocabulary.errors import StealtimeError

MOST_REQUESTS = 1 << 16
"""Their numbers are 16 bits."""
ANSWERED_WITHIN_S = 2.0
"""After the last one."""
_STARTS_WITHIN_S = 20.0
_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number."""
_REQUEST, _REPLY = 8, 0
_PAYLOAD = bytes(48)
"""56 bytes with the header, as of ``ping``."""
_LONGEST_PACKET = 1 << 16


def round_trips(client: Client, address: str, count: int, interval_ns: int) -> list[int | None]:
    """Ask an address from where a client is.

    Args:
        client: Where.
        address: IPv4.
        count: How many requests, at most :data:`MOST_REQUESTS`.
        interval_ns: From one to the next.

    Returns:
        Of each request the time from when it was due to its answer, in ns; None where there was none.

    Raises:
        StealtimeError: It cannot be asked.
    """
    argv = [sys.executable, "-m", "stealtime.hosts.echo", address, str(count), str(interval_ns)]
    within_s = count * interval_ns / 1e9 + ANSWERED_WITHIN_S + _STARTS_WITHIN_S
    done = finished_at(client, argv, within_s, f"the echo requests to {address} did not end")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise StealtimeError(f"{address} cannot be asked: {said[-1] if said else f'exit code {done.returncode}'}")
    return list(json.loads(done.stdout))


def percentile_ns(trips: Sequence[int | None], percent: float) -> int | None:
    """Give the nearest rank among all requests; None where that one was not answered, which is later than any."""
    ranked = sorted(math.inf if trip is None else trip for trip in trips)
    found = ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]
    return None if math.isinf(found) else int(found)


def request(identifier: int, number: int) -> bytes:
    """Give an echo request."""
    blank = _HEADER.pack(_REQUEST, 0, 0, identifier, number) + _PAYLOAD
    return _HEADER.pack(_REQUEST, 0, _checksum(blank), identifier, number) + _PAYLOAD


def answered(packet: bytes, identifier: int) -> int | None:
    """Give the number of the request that an IPv4 packet answers; None where it answers none of ours."""
    header_bytes = 4 * (packet[0] & 0xF) if packet else 0
    if len(packet) < header_bytes + _HEADER.size:
        return None
    kind, code, _, owner, number = _HEADER.unpack_from(packet, header_bytes)
    return int(number) if (kind, code, owner) == (_REPLY, 0, identifier) else None


def _checksum(data: bytes) -> int:
    """Give the one's complement of the one's complement sum of 16-bit words (RFC 1071); ``data`` has an even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _ask(address: str, count: int, interval_ns: int) -> list[int | None]:
    identifier = os.getpid() & 0xFFFF
    trips: list[int | None] = [None] * count
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as link:
        link.connect((address, 0))
        link.setblocking(False)
        begun_ns = time.monotonic_ns()
        end_ns = begun_ns + (count - 1) * interval_ns + int(ANSWERED_WITHIN_S * 1e9)
        sent, unanswered = 0, count
        while unanswered and (now_ns := time.monotonic_ns()) < end_ns:
            while sent < count and begun_ns + sent * interval_ns <= now_ns:
                # What the kernel does not take is lost, as on any link.
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    link.send(request(identifier, sent))
                sent += 1
            until_ns = begun_ns + sent * interval_ns if sent < count else end_ns
            if not select.select([link], [], [], max(0.0, (until_ns - time.monotonic_ns()) / 1e9))[0]:
                continue
            try:
                packet = link.recv(_LONGEST_PACKET)
            except (BlockingIOError, ConnectionError):
                continue
            number = answered(packet, identifier)
            if number is not None and number < sent and trips[number] is None:
                trips[number] = time.monotonic_ns() - (begun_ns + number * interval_ns)
                unanswered -= 1
    return trips


if __name__ == "__main__":
    _address, _count, _interval_ns = sys.argv[1:]
    sys.stdout.write(json.dumps(_ask(_address, int(_count), int(_interval_ns))))
