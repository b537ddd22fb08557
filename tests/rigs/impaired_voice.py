"""A process between callers and relay that does known harm to their voice: every 100th packet is lost, others wait.

``python impaired_voice.py ADDRESS FIRST_PORT DELAY_MS``: the relay's ports, one ``ADDRESS:PORT`` a line, come by
standard input up to an empty line; the voice for each is taken at FIRST_PORT and every second port from there on. What
it passes on bears the caller's own address, so that the relay's voice goes to the caller and not here: one direction is
harmed, the other one not touched. When standard input is closed it prints what it did, as JSON.
"""

import heapq
import json
import select
import socket
import sys
import time

from voice_mark import mark_of

LOSES_EVERY = 100
_HEADERS = 28
_DO_NOT_FRAGMENT = 0x4000
_HOPS = 64


def main() -> None:
    """Forward until standard input is closed."""
    address, first_port, delay_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    relays: dict[socket.socket, tuple[str, int]] = {}
    while line := sys.stdin.readline().strip():
        hears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        hears.bind((address, first_port + 2 * len(relays)))
        host, _, port = line.rpartition(":")
        relays[hears] = (host, int(port))
    says = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    _tell("ready")
    voice = dropped = order = 0
    waiting: list[tuple[float, int, bytes, tuple[str, int]]] = []
    is_open = True
    while is_open or waiting:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.5
        sources = [*relays, *([sys.stdin] if is_open else [])]
        for ready in select.select(sources, [], [], timeout)[0]:
            if not isinstance(ready, socket.socket):
                is_open = False
                continue
            packet, caller = ready.recvfrom(2048)
            if mark_of(packet) is not None:
                voice += 1
                if voice % LOSES_EVERY == 0:
                    dropped += 1
                    continue
            order += 1
            datagram = _datagram(caller, relays[ready], packet)
            heapq.heappush(waiting, (time.monotonic() + delay_ms / 1e3, order, datagram, relays[ready]))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, datagram, relay = heapq.heappop(waiting)
            says.sendto(datagram, relay)
    _tell(json.dumps({"voice": voice, "dropped": dropped}))


def _datagram(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """Put the headers of IPv4 (RFC 791) and UDP (RFC 768) before it; the kernel adds the check sum of the former."""
    length = _HEADERS + len(payload)
    ip = bytes([0x45, 0]) + length.to_bytes(2) + bytes(2) + _DO_NOT_FRAGMENT.to_bytes(2)
    ip += bytes([_HOPS, socket.IPPROTO_UDP, 0, 0]) + socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    # A check sum of 0 means that there is none.
    udp = source[1].to_bytes(2) + destination[1].to_bytes(2) + (length - 20).to_bytes(2) + bytes(2)
    return ip + udp + payload


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
