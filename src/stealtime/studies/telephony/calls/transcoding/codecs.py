"""Both codecs of a call that is transcoded: what a packet of each holds, made of a signal and read as one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stealtime.studies.telephony.calls.transcoding import g722

RATE_HZ = 8000
"""Of signals here, and of the RTP clock of both: G.722 samples at 16 kHz, and counts 8 kHz by an old error (RFC 3551,
section 4.5.2)."""
PACKET_SAMPLES = 160
"""Of 20 ms, and as many bytes of either codec."""

_BIAS = 132
_LOUDEST = 32635
_SEGMENTS = 8


@dataclass(frozen=True)
class Codec:
    """A codec of 64 kbit/s.

    Attributes:
        name: As session descriptions have it.
        payload_type: By RFC 3551, which is always the same.
        loudest: The largest sample.
        encode: (streams, samples) to as many bytes.
        decode: Bytes to samples, each stream from a new state.
    """

    name: str
    payload_type: int
    loudest: int
    encode: Callable[[NDArray[np.int64]], NDArray[np.uint8]]
    decode: Callable[[NDArray[np.uint8]], NDArray[np.int64]]


def ulaw_encoded(samples: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Encode by the u-law of ITU-T G.711, table 2a: a sign, the segment, and where in it, all bits turned."""
    size = np.minimum(np.abs(samples), _LOUDEST) + _BIAS
    # A size has its highest bit from 7 up to 14: the segments, each twice as wide as the one before.
    segment = np.floor(np.log2(size)).astype(np.int64) - 7
    within = (size >> (segment + 3)) & 15
    return np.asarray(~(np.where(samples < 0, 128, 0) | (segment << 4) | within) & 255, dtype=np.uint8)


def ulaw_decoded(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Decode what :func:`ulaw_encoded` makes."""
    turned = ~codes.astype(np.int64) & 255
    size = ((((turned & 15) << 3) + _BIAS) << ((turned >> 4) & (_SEGMENTS - 1))) - _BIAS
    return np.where(turned & 128, -size, size)


PCMU = Codec("PCMU", 0, _LOUDEST, ulaw_encoded, ulaw_decoded)
G722 = Codec("G722", 9, 16383, g722.encoded, g722.decoded)
CODECS = {one.name: one for one in (PCMU, G722)}
