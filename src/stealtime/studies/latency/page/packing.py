"""The envelope of a cell, packed small enough that tens of cells fit into one HTML file.

An envelope cuts the time of a trial into equal buckets and keeps of each the shortest and the longest sample and when
the longest began, so that a figure drawn from it at any zoom shows every maximum. Durations are written as 16-bit
codes on a logarithmic scale (steps of 0.07 %, maxima rounded up and minima down, so that the true samples never lie
outside), times within a bucket as 1/256 of it. Bytes of one meaning stand together (five planes), which deflates
to about 3 bytes a bucket. The worst samples are embedded exactly besides, and the page puts them back in.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stealtime.report.figure_library import pack

STEPS_PER_OCTAVE = 1000
"""One code is a factor of 2^(1/1000): 0.07 %, a tenth of a pixel on any screen. 65,535 codes span 65 octaves."""
LOG2_OFFSET = -10.0
"""Code 1 stands for 2^-10 ns; the last one for 2^55 ns, a year."""
MOST_BUCKETS = 65_536
"""Of one cell: 50 times as many as a wide screen has pixels."""
FEWEST_BUCKETS = 4_096
BUCKETS_A_REPORT = 1 << 20
"""Of all cells together: about 4 MB of HTML, so that with the library a report stays under 8 MB."""


@dataclass(frozen=True)
class Envelope:
    """The buckets in which a sample began, in order of time; all arrays are equally long."""

    bucket_s: float
    """How long each bucket is; the first starts with the first sample."""
    bucket: NDArray[np.int64]
    """Which one, from 0."""
    min_ns: NDArray[np.float64]
    max_ns: NDArray[np.float64]
    max_at_s: NDArray[np.float64]
    """When the longest sample of the bucket began, since the first sample."""


@dataclass(frozen=True)
class PackedEnvelope:
    """What the page needs to unpack an envelope (``templates/envelope.js``)."""

    description: dict[str, Any]
    planes: str
    """Base64 of the deflated planes."""


def buckets_a_cell(cells: int) -> int:
    """Give how many buckets each of so many cells may have: a power of two, as fine as the file's size allows."""
    buckets = MOST_BUCKETS
    while buckets > FEWEST_BUCKETS and buckets * cells > BUCKETS_A_REPORT:
        buckets //= 2
    return buckets


def pack_envelope(envelope: Envelope, end_s: float) -> PackedEnvelope:
    """Pack an envelope.

    Args:
        envelope: Of at least one sample.
        end_s: When the last sample ended, for the axis.
    """
    buckets = int(envelope.bucket[-1]) + 1
    planes = np.zeros((5, buckets), np.uint8)
    filled = envelope.bucket
    codes = np.stack([_codes(envelope.max_ns, np.ceil), _codes(envelope.min_ns, np.floor)])
    planes[0:4:2, filled] = codes >> 8
    planes[1:4:2, filled] = codes & 0xFF
    share = envelope.max_at_s / envelope.bucket_s - filled
    planes[4, filled] = np.clip(np.floor(share * 256), 0, 255)
    description = {
        "buckets": buckets,
        "bucket_s": envelope.bucket_s,
        "end_s": end_s,
        "log2_offset": LOG2_OFFSET,
        "steps_per_octave": STEPS_PER_OCTAVE,
    }
    return PackedEnvelope(description, pack(planes.tobytes()))


def _codes(durations_ns: NDArray[np.float64], rounding: Any) -> NDArray[np.uint16]:
    with np.errstate(divide="ignore"):
        steps = rounding((np.log2(durations_ns) - LOG2_OFFSET) * STEPS_PER_OCTAVE) + 1
    # Code 0 means that no sample began in a bucket; a duration of nought (a coarse clock) gets the smallest other one.
    codes: NDArray[np.uint16] = np.clip(steps, 1, 65_535).astype(np.uint16)
    return codes
