"""A process between caller and relay that does known harm to voice: every 100th packet is lost, all others wait.

``python impaired_voice.py ADDRESS FIRST_PORT DELAY_MS``: the relay's ports, one ``ADDRESS:PORT`` a line, come by
standard input up to an empty line; the voice for each is taken at FIRST_PORT and every second port from there on. When
standard input is closed it prints what it did, as JSON.
"""

import heapq
import json
import select
import socket
import sys
import time

LOSES_EVERY = 100
_VOICE = (172, 21, 1)
"""Length of a packet, where its kind stands, and the kind of voice (``crates/media/src/packet.rs``)."""


def main() -> None:
    """Forward until standard input is closed."""
    address, first_port, delay_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    relays: dict[socket.socket, tuple[str, int]] = {}
    while line := sys.stdin.readline().strip():
        hears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        hears.bind((address, first_port + 2 * len(relays)))
        host, _, port = line.rpartition(":")
        relays[hears] = (host, int(port))
    _tell("ready")
    voice = dropped = order = 0
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    is_open = True
    while is_open or waiting:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.5
        sources = [*relays, *([sys.stdin] if is_open else [])]
        for ready in select.select(sources, [], [], timeout)[0]:
            if not isinstance(ready, socket.socket):
                is_open = False
                continue
            packet = ready.recv(2048)
            length, kind_at, kind = _VOICE
            if len(packet) == length and packet[kind_at] == kind:
                voice += 1
                if voice % LOSES_EVERY == 0:
                    dropped += 1
                    continue
            order += 1
            heapq.heappush(waiting, (time.monotonic() + delay_ms / 1e3, order, ready, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, hears, packet = heapq.heappop(waiting)
            hears.sendto(packet, relays[hears])
    _tell(json.dumps({"voice": voice, "dropped": dropped}))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
