"""What a stream says that is transcoded: tones, by which who hears them knows the stream and the place in it.

A tone lasts four packets, and a melody 128 (2.56 s) before it begins anew. Each stream has a melody of its own. All
frequencies have whole waves in a packet, so packets of one tone are alike, and a packet alone tells its tone.
"""

import random
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stealtime.studies.telephony.calls.transcoding.codecs import PACKET_SAMPLES, RATE_HZ, Codec

FREQUENCIES_HZ = (500, 700, 900, 1100, 1300, 1500, 1700, 1900)
PACKETS_OF_TONE = 4
PACKETS_OF_MELODY = 128
NO_TONE = -1
"""What is none of the frequencies."""

_VOLUME = 0.25
"""Of the loudest: of a tone's amplitude."""
_PURITY_MIN = 0.5
"""Of the power of a packet, that of its tone."""
_WARMING = 3
"""So many packets of a tone are encoded before that which is kept, as a codec's state goes with the signal."""


def melody(name: str) -> NDArray[np.int64]:
    """Give the tone of each packet of a melody, as places in :data:`FREQUENCIES_HZ`; no tone follows itself.

    Args:
        name: Of the stream: the same one has the same melody everywhere.
    """
    drawn = random.Random(name)  # noqa: S311
    tones = [drawn.randrange(len(FREQUENCIES_HZ))]
    while len(tones) < PACKETS_OF_MELODY // PACKETS_OF_TONE:
        others = {tones[-1], tones[0]} if len(tones) == PACKETS_OF_MELODY // PACKETS_OF_TONE - 1 else {tones[-1]}
        tones.append(drawn.choice([one for one in range(len(FREQUENCIES_HZ)) if one not in others]))
    return np.repeat(np.array(tones, dtype=np.int64), PACKETS_OF_TONE)


@cache
def packets(codec: Codec) -> tuple[bytes, ...]:
    """Give what a packet of each tone holds."""
    at = np.arange((_WARMING + 1) * PACKET_SAMPLES) / RATE_HZ
    waves = np.sin(2 * np.pi * np.array(FREQUENCIES_HZ)[:, np.newaxis] * at)
    codes = codec.encode(np.round(_VOLUME * codec.loudest * waves).astype(np.int64))
    return tuple(one.tobytes() for one in codes[:, -PACKET_SAMPLES:])


def tones(codec: Codec, payloads: NDArray[np.uint8], before: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Tell which tone each packet holds, by Goertzel's sums at all frequencies; :data:`NO_TONE` where none stands out.

    Args:
        codec: That they are read by.
        payloads: (packets, bytes).
        before: Of each, the packet that came before it in its stream: a codec's state has it.
    """
    if not len(payloads):
        return np.zeros(0, dtype=np.int64)
    samples = codec.decode(np.hstack((before, payloads)))[:, -PACKET_SAMPLES:].astype(np.float64)
    turns = np.outer(np.arange(PACKET_SAMPLES) / RATE_HZ, np.array(FREQUENCIES_HZ))
    power = np.abs(samples @ np.exp(-2j * np.pi * turns)) ** 2 * 2 / PACKET_SAMPLES
    whole = np.maximum((samples**2).sum(axis=1), 1.0)
    best = power.argmax(axis=1)
    is_pure = power.max(axis=1) / whole >= _PURITY_MIN
    return np.where(is_pure, best, NO_TONE)
