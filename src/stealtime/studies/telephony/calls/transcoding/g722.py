"""G.722 at 64 kbit/s (ITU-T G.722, 09/2012), of which only the lower sub-band carries a signal here.

A byte holds 6 bits for the lower sub-band (0 to 4 kHz) and 2 for the upper one, each an adaptive differential code:
what a code means depends on all before it. Tones below 4 kHz are in the lower one alone, so that one is made and read
at 8 kHz without the filters that part both, and the upper one gets the codes of silence. Many streams go in step: all
numbers of a state are arrays, one element for each stream. Names of blocks and tables are those of the recommendation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_TAPS = 6
"""Zeros of a predictor; it has two poles besides."""
_ILB = np.round(2048 * 2 ** (np.arange(32) / 32)).astype(np.int64)
"""The mantissas of logarithms with base 2, table 15."""
_SIX_BITS = (
    *(24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192, 10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456),
    *(4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032, 1688, 1360, 1040, 728),
)
_SMALLEST = (432, 136)
_RESERVED = 4
"""Codes 0 to 3 are not sent."""
_QM6 = np.array(
    [
        *(-_SMALLEST[1] for _ in range(_RESERVED)),
        *(-one for one in _SIX_BITS),
        *_SIX_BITS,
        *_SMALLEST,
        *(-one for one in _SMALLEST),
    ],
    dtype=np.int64,
)
"""By a code of the lower sub-band, of 6 bits: the difference, at a scale of 1."""
_FOUR_BITS = (20456, 12896, 8968, 6288, 4240, 2584, 1200)
_QM4 = np.array([0, *(-one for one in _FOUR_BITS), *_FOUR_BITS, 0], dtype=np.int64)
"""The same by its upper 4 bits: by these alone the state goes on."""
_QM2 = np.array([-7408, -1616, 7408, 1616], dtype=np.int64)
_WL = np.array([-60, -30, 58, 172, 334, 538, 1198, 3042], dtype=np.int64)
_RL42 = np.array([0, *range(7, 0, -1), *range(7, 0, -1), 0], dtype=np.int64)
_WH_OF_CODE = np.array([798, -214, 798, -214], dtype=np.int64)


@dataclass(frozen=True)
class _Band:
    """What differs between both sub-bands.

    Attributes:
        levels: The difference at a scale of 1, by the part of a code that moves the state.
        steps: What it adds to the logarithm of the scale.
        highest: Of that logarithm.
        shift: From it to the scale.
        first_scale: Before any code.
    """

    levels: Numbers
    steps: Numbers
    highest: int
    shift: int
    first_scale: int


_LOWER = _Band(_QM4, _WL[_RL42], 18432, 8, 32)
_UPPER = _Band(_QM2, _WH_OF_CODE, 22528, 10, 8)


class _State:
    """Predictor and scale of a sub-band, of so many streams in step."""

    def __init__(self, band: _Band, streams: int) -> None:
        self._band = band
        self.scale = np.full(streams, band.first_scale, dtype=np.int64)
        self.predicted = np.zeros(streams, dtype=np.int64)
        self._by_zeros = np.zeros(streams, dtype=np.int64)
        self._logarithm = np.zeros(streams, dtype=np.int64)
        self._zeros = np.zeros((_TAPS, streams), dtype=np.int64)
        self._poles = np.zeros((2, streams), dtype=np.int64)
        self._differences = np.zeros((_TAPS, streams), dtype=np.int64)
        self._rebuilt = np.zeros((2, streams), dtype=np.int64)
        self._partial = np.zeros((2, streams), dtype=np.int64)

    def go_on(self, code: Numbers) -> None:
        """Take one code of each stream."""
        band = self._band
        difference = (self.scale * band.levels[code]) >> 15
        # LOGSCL and SCALEL, or LOGSCH and SCALEH.
        self._logarithm = np.clip(((self._logarithm * 127) >> 7) + band.steps[code], 0, band.highest)
        mantissa, down = _ILB[(self._logarithm >> 6) & 31], band.shift - (self._logarithm >> 11)
        self.scale = np.where(down < 0, mantissa << np.maximum(-down, 0), mantissa >> np.maximum(down, 0)) << 2
        # RECONS and PARREC.
        rebuilt, partial = _saturated(self.predicted + difference), _saturated(self._by_zeros + difference)
        self._move_poles(partial)
        self._move_zeros(difference)
        self._differences = np.vstack((difference[np.newaxis], self._differences[:-1]))
        self._rebuilt = np.vstack((rebuilt[np.newaxis], self._rebuilt[:1]))
        self._partial = np.vstack((partial[np.newaxis], self._partial[:1]))
        # FILTEP, FILTEZ and PREDIC.
        by_poles = _saturated(((self._poles * _saturated(2 * self._rebuilt)) >> 15).sum(axis=0))
        self._by_zeros = _saturated(((self._zeros * _saturated(2 * self._differences)) >> 15).sum(axis=0))
        self.predicted = _saturated(by_poles + self._by_zeros)

    def _move_poles(self, partial: Numbers) -> None:
        """Blocks UPPOL2 and UPPOL1."""
        first, second = self._poles
        same, same_before = ((partial < 0) == (earlier < 0) for earlier in self._partial)
        by_first = _saturated(4 * first)
        moved = np.where(same, np.minimum(-by_first, 32767), by_first) >> 7
        second = np.clip(moved + np.where(same_before, 128, -128) + ((second * 32512) >> 15), -12288, 12288)
        first = _saturated(np.where(same, 192, -192) + ((first * 32640) >> 15))
        most = _saturated(15360 - second)
        self._poles = np.vstack((np.clip(first, -most, most)[np.newaxis], second[np.newaxis]))

    def _move_zeros(self, difference: Numbers) -> None:
        """Block UPZERO."""
        step = np.where(difference == 0, 0, 128)
        same = (self._differences < 0) == (difference < 0)
        self._zeros = _saturated(np.where(same, step, -step) + ((self._zeros * 32640) >> 15))


def encoded(samples: Numbers) -> NDArray[np.uint8]:
    """Encode signals below 4 kHz.

    Args:
        samples: (streams, samples) at 8 kHz, from -16384 to 16383: the lower sub-band has 15 bits.

    Returns:
        (streams, samples): a byte for each of them.
    """
    streams, count = samples.shape
    lower, upper, codes = _State(_LOWER, streams), _State(_UPPER, streams), np.zeros((streams, count), dtype=np.uint8)
    for at in range(count):
        low = _RESERVED + _nearest(samples[:, at] - lower.predicted, lower.scale, _QM6[_RESERVED:])
        high = _nearest(-upper.predicted, upper.scale, _QM2)
        lower.go_on(low >> 2)
        upper.go_on(high)
        codes[:, at] = (high << 6) | low
    return codes


def decoded(codes: NDArray[np.uint8]) -> Numbers:
    """Decode the lower sub-band, from a new state.

    Args:
        codes: (streams, samples), a byte for each sample at 8 kHz.

    Returns:
        (streams, samples), from -16384 to 16383.
    """
    streams, count = codes.shape
    lower, samples = _State(_LOWER, streams), np.zeros((streams, count), dtype=np.int64)
    for at in range(count):
        low = codes[:, at].astype(np.int64) & 63
        samples[:, at] = np.clip(lower.predicted + ((lower.scale * _QM6[low]) >> 15), -16384, 16383)
        lower.go_on(low >> 2)
    return samples


def _nearest(wanted: Numbers, scale: Numbers, levels: Numbers) -> Numbers:
    """Give the code of each stream whose difference is nearest to what is wanted."""
    far = np.abs(wanted[:, np.newaxis] - ((scale[:, np.newaxis] * levels) >> 15))
    return np.asarray(far.argmin(axis=1), dtype=np.int64)


def _saturated(values: Numbers) -> Numbers:
    return np.clip(values, -32768, 32767)
