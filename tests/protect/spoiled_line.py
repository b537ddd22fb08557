"""A connection between two hosts that does what a bad one does: it flips bits, cuts, loses, repeats, and is slow.

It stands between the socket that the active member connects to and the one where the other host listens, and knows
where frames begin (``crates/shipping/src/frame.rs``), so that what it spoils is hit where it hurts.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

GREETING_BYTES = 8
HEADER_BYTES = 40
_LENGTH = slice(24, 28)
_KIND = 6


class Kind(IntEnum):
    """Of frames, as far as they are spoiled here."""

    HELLO = 1
    EPOCH_BEGIN = 5
    PAGES = 6
    DEVICES = 7
    EPOCH_END = 8
    ACKNOWLEDGE = 9


@dataclass(frozen=True)
class Damage:
    """What happens to the next frame of a kind."""

    name: str
    kind: Kind
    spoil: Callable[[bytes, random.Random], Sequence[bytes]]
    """Gives what goes on in its place; nothing more comes after an empty piece, as the line is cut there."""
    said: tuple[str, ...]
    """One of these whoever gets it must say of it."""


def flip_in_payload(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """One bit of the content is another."""
    return [_flip(frame, chance.randrange(HEADER_BYTES, len(frame)), chance)]


def flip_in_length(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """One bit of what says how long the frame is, is another."""
    return [_flip(frame, chance.randrange(_LENGTH.start, _LENGTH.stop), chance)]


def cut_short(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """The connection ends in the middle."""
    return [frame[: chance.randrange(1, len(frame))], b""]


def after_garbage(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """Something else comes before it."""
    return [chance.randbytes(chance.randint(HEADER_BYTES, 4096)), frame]


def twice(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """It comes again, whole and right."""
    return [frame, frame]


def lost(frame: bytes, chance: random.Random) -> Sequence[bytes]:
    """It does not come, and all others do."""
    return []


class SpoiledLine:
    """Carries connections, unharmed until it is told otherwise.

    Args:
        listens_on: The socket that the active member is told.
        leads_to: The socket where the other host listens.
        chance: Where in a frame, and what.
    """

    def __init__(self, listens_on: Path, leads_to: Path, chance: random.Random) -> None:
        self._leads_to = leads_to
        self._chance = chance
        self._lock = threading.Lock()
        self._next: Damage | None = None
        self.was_spoiled = threading.Event()
        self.hello: bytes | None = None
        """The last one that came by."""
        self.full_copy_bytes_per_s: float | None = None
        """How fast it is for a copy of all memory. None: as fast as can be."""
        self.bytes_per_s: float | None = None
        """How fast it is for what comes after that."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(listens_on))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def spoil(self, damage: Damage) -> None:
        """Do this to the next frame of its kind, once."""
        with self._lock:
            self.was_spoiled.clear()
            self._next = damage

    def close(self) -> None:
        """Take no more connections."""
        # A thread that waits for one is not woken by closing alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                of_active, _ = self._listener.accept()
            except OSError:
                return
            of_standby = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                of_standby.connect(str(self._leads_to))
            except OSError:
                of_active.close()
                continue
            for source, target, greeting_bytes in ((of_active, of_standby, 0), (of_standby, of_active, GREETING_BYTES)):
                threading.Thread(target=self._carry, args=(source, target, greeting_bytes), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, greeting_bytes: int) -> None:
        try:
            with source.makefile("rb") as reader:
                target.sendall(reader.read(greeting_bytes))
                is_full_copy = True
                while header := reader.read(HEADER_BYTES):
                    frame = header + reader.read(int.from_bytes(header[_LENGTH], "little"))
                    if frame[_KIND] == Kind.EPOCH_BEGIN:
                        is_full_copy = json.loads(frame[HEADER_BYTES:])["full"]
                    bytes_per_s = self.full_copy_bytes_per_s if is_full_copy else self.bytes_per_s
                    if bytes_per_s is not None:
                        time.sleep(len(frame) / bytes_per_s)
                    for piece in self._spoiled(frame):
                        if not piece:
                            return
                        target.sendall(piece)
        except OSError:
            pass
        finally:
            # Both ways end at once, as those of a connection do.
            for end in (source, target):
                _shut(end)

    def _spoiled(self, frame: bytes) -> Sequence[bytes]:
        if frame[_KIND] == Kind.HELLO:
            self.hello = frame
        with self._lock:
            damage = self._next
            if damage is None or frame[_KIND] != damage.kind:
                return [frame]
            self._next = None
            pieces = damage.spoil(frame, self._chance)
        self.was_spoiled.set()
        return pieces


def _flip(frame: bytes, position: int, chance: random.Random) -> bytes:
    changed = bytearray(frame)
    changed[position] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
