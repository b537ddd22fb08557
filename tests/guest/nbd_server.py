"""A disk over the network block device protocol whose every request takes a known time.

Fixed newstyle negotiation, simple replies (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md). Run as
a program, so that nothing of the test runs beside it: ``nbd_server.py SOCKET IMAGE DELAY_NS``; it says ``ready``.
"""

import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

_MAGIC, _OPTION, _REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
_REQUEST, _SIMPLE_REPLY = 0x25609513, 0x67446698
_FIXED_NEWSTYLE, _NO_ZEROES = 1, 2
_EXPORT_NAME, _ABORT, _GO = 1, 2, 7
_ACK, _INFO, _UNSUPPORTED = 1, 3, 0x80000001
_HAS_FLAGS, _SEND_FLUSH = 1, 4
_READ, _WRITE, _DISCONNECT = 0, 1, 2


AWAKE_NS = 300_000


def serve(path: str, content: bytearray, delay_ns: int) -> None:
    """Answer one client after the other, each until it leaves."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)  # noqa: T201 - it is a program
        while True:
            client, _ = listener.accept()
            with client, suppress(EOFError):
                _negotiate(client, len(content))
                _answer(client, content, delay_ns)


def _take(client: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        piece = client.recv(count - len(taken))
        if not piece:
            raise EOFError
        taken += piece
    return taken


def _negotiate(client: socket.socket, size: int) -> None:
    client.sendall(struct.pack(">QQH", _MAGIC, _OPTION, _FIXED_NEWSTYLE | _NO_ZEROES))
    _take(client, 4)
    while True:
        _, option, length = struct.unpack(">QII", _take(client, 16))
        _take(client, length)
        if option == _EXPORT_NAME:
            client.sendall(struct.pack(">QH", size, _HAS_FLAGS | _SEND_FLUSH))
            return
        if option == _GO:
            info = struct.pack(">HQH", 0, size, _HAS_FLAGS | _SEND_FLUSH)
            client.sendall(struct.pack(">QIII", _REPLY, option, _INFO, len(info)) + info)
            client.sendall(struct.pack(">QIII", _REPLY, option, _ACK, 0))
            return
        client.sendall(struct.pack(">QIII", _REPLY, option, _ACK if option == _ABORT else _UNSUPPORTED, 0))


def _answer(client: socket.socket, content: bytearray, delay_ns: int) -> None:
    while True:
        _, _, kind, handle, offset, length = struct.unpack(">IHHQQI", _take(client, 28))
        arrived_ns = time.monotonic_ns()
        if kind == _DISCONNECT:
            return
        if kind == _WRITE:
            content[offset : offset + length] = _take(client, length)
        answer = struct.pack(">IIQ", _SIMPLE_REPLY, 0, handle)
        if kind == _READ:
            answer += bytes(content[offset : offset + length])
        # A sleep ends late by some 50 us here: the last part is waited for awake, so that the delay is the one given.
        left_ns = arrived_ns + delay_ns - time.monotonic_ns()
        if left_ns > AWAKE_NS:
            time.sleep((left_ns - AWAKE_NS) / 1e9)
        while time.monotonic_ns() < arrived_ns + delay_ns:
            pass
        client.sendall(answer)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: nbd_server.py SOCKET IMAGE DELAY_NS")
    serve(sys.argv[1], bytearray(Path(sys.argv[2]).read_bytes()), int(sys.argv[3]))
