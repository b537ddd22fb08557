"""The frame codec: bytes in, frames or a typed error out.

``u32`` little-endian payload length, ``u8`` kind, payload. It never waits and never keeps more than one frame's limit
beyond what it was fed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from stealtime.vocabulary.errors import StealtimeError

_HEADER = Struct("<IB")


class FrameKind(IntEnum):
    """What a frame carries."""

    MESSAGE = 1
    ARROW = 2


LIMIT_BYTES = {FrameKind.MESSAGE: 1 << 20, FrameKind.ARROW: 4 << 20}
"""The longest payload of each kind, as in ``crates/wire/src/frame.rs``."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame, without its header."""

    kind: FrameKind
    payload: bytes


class FrameError(StealtimeError):
    """Bytes that are not frames: an unknown kind, a length over the limit, or an end inside a frame."""


def encode_frame(kind: FrameKind, payload: bytes) -> bytes:
    """Write one frame.

    Raises:
        FrameError: ``payload`` is longer than the kind allows.
    """
    _check_length(kind, len(payload))
    return _HEADER.pack(len(payload), kind) + payload


class FrameDecoder:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add bytes and give the frames that are now whole.

        Raises:
            FrameError: The bytes cannot become a frame.
        """
        self._buffer += data
        while (header := self._header()) is not None:
            kind, length = header
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            yield Frame(kind, payload)

    def finish(self) -> None:
        """Say that no more bytes will come.

        Raises:
            FrameError: A part of a frame is left.
        """
        if not self._buffer:
            return
        header = self._header()
        want = _HEADER.size if header is None else _HEADER.size + header[1]
        raise FrameError(f"the input ended inside a frame: {len(self._buffer)} of {want} bytes")

    def _header(self) -> tuple[FrameKind, int] | None:
        if len(self._buffer) < _HEADER.size:
            return None
        length, byte = _HEADER.unpack_from(self._buffer)
        try:
            kind = FrameKind(byte)
        except ValueError:
            raise FrameError(f"a frame has an unknown kind {byte}") from None
        _check_length(kind, length)
        return kind, length


def _check_length(kind: FrameKind, length: int) -> None:
    if length > LIMIT_BYTES[kind]:
        raise FrameError(f"a frame of kind {kind} announces {length} bytes, over the limit of {LIMIT_BYTES[kind]}")
