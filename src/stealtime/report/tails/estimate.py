"""From values to an estimate of their tail, or to the reasons why there is none; pure, and the same for the same seed.

Probabilities are of one value, and then of an hour: p of an hour is 1 - (1 - p of a value)^(values an hour). A value is
exceeded with p if an excess over the threshold is with p / (share of values above it), and if a block's maximum is with
1 - (1 - p)^(values a block).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stealtime.report.tails import checks
from stealtime.report.tails.document import Check, Level, Threshold
from stealtime.report.tails.fits import Array, Extreme, Pareto, fit_pareto, pareto_level, pareto_region
from stealtime.report.tails.series import TailSeries

CONFIDENCE = 0.95
LEVEL = 0.05
"""So many good series all checks together refuse, at most (Bonferroni)."""
PER_HOUR = (1e-1, 1e-3, 1e-6)
"""Probabilities for which values are given."""
SEED = 1
FEWEST_EVENTS = 1_000
_DRAWS = 999
_FEWEST_EXCESSES, _MOST_EXCESSES = 50, 500
_LARGEST_SHARE = 0.05
"""Of all values above the lowest threshold: more of them are not the tail."""
_BLOCKS = (200, 140, 100, 70, 50)
_SMALLEST_BLOCK = 20
_MOST_TIED = 0.5


@dataclass(frozen=True)
class Estimate:
    """What was found of a series."""

    refused_because: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    block_events: int | None = None
    blocks: int | None = None
    thresholds: tuple[Threshold, ...] = ()
    taken: int | None = None
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True)
class _Peaks:
    """Excesses over one threshold."""

    threshold_ns: float
    excesses: Array
    fit: Pareto
    p_value: float | None

    def level(self, exceeded: float, events: int) -> float:
        """Give the value that is exceeded with a probability of one event."""
        conditional = exceeded * events / len(self.excesses)
        return self.threshold_ns + float(pareto_level(self.fit, conditional)[0])


@dataclass(frozen=True)
class _Maxima:
    """Maxima of blocks, with fits of samples of their fit."""

    events: int
    count: int
    fit: Extreme
    drawn: Extreme
    p_value: float


def estimate_tail(series: TailSeries, seed: int = SEED) -> Estimate:
    """Estimate the tail of a series.

    The thresholds are the largest 500 values, or a twentieth if that is less, and then fewer by a factor of the root of
    2, to 50. The first whose fit is not rejected is taken; the further ones show how sensitive the result is. Blocks
    are 200, 140, 100, 70 or 50, of at least 20 values each: the first number whose fit is not rejected.
    """
    values = series.values_ns
    if series.hindrance is not None:
        return Estimate((series.hindrance,))
    if len(values) < FEWEST_EVENTS:
        return Estimate((f"there are {len(values)} values, and fewer than {FEWEST_EVENTS} have no tail to speak of",))
    most = min(_MOST_EXCESSES, int(_LARGEST_SHARE * len(values)))
    places = np.argpartition(values, len(values) - most - 1)[-most:]
    places.sort()
    highest = np.sort(values[places])
    tied = 1.0 - len(np.unique(highest)) / most
    if tied > _MOST_TIED:
        return Estimate(
            (
                f"{100 * tied:.0f} % of the {most} longest values are equal to another: the clock, with steps of "
                f"{series.resolution_ns:.3g} ns, is too coarse for them",
            )
        )
    return _checked(series, values, places, np.random.default_rng(seed))


def _checked(series: TailSeries, values: Array, places: NDArray[np.int64], generator: np.random.Generator) -> Estimate:
    level = LEVEL / (7 if series.host_hit is None else 8)
    # Clocks step: within a step values are spread evenly, or the fits would see the steps.
    spread = values[places] + series.resolution_ns * generator.random(len(places))
    tail = np.sort(spread)
    blocks = [_blocks(values, count) for count in _BLOCKS if len(values) >= count * _SMALLEST_BLOCK]
    most_blocks = blocks[0]
    found = [
        ("maxima of blocks are not correlated (Ljung-Box)", checks.ljung_box(most_blocks)),
        ("the level of maxima of blocks stays (KPSS)", checks.kpss(most_blocks)),
        ("maxima of blocks lie at random above and below (runs)", checks.runs(most_blocks)),
        ("long values do not come together", checks.clustering(places, len(values), generator, _DRAWS)),
    ]
    if series.host_hit is not None:
        found.append(
            (
                "the host interfered with long values no more often than with others",
                checks.hit_more_often(series.host_hit, places),
            )
        )
    below = float(np.partition(values, len(values) - len(places) - 1)[len(values) - len(places) - 1])
    lowest = tail - below
    lowest = np.maximum(lowest, series.resolution_ns * 1e-3 or 1e-6)
    found.append(("the longest values are of one kind with the others", checks.rare_mixture(lowest, generator, _DRAWS)))
    peaks = _peaks(tail, below, generator, level)
    taken = next((index for index, one in enumerate(peaks) if (one.p_value or 0.0) >= level), None)
    found.append(("excesses over a threshold fit (Anderson-Darling)", max(one.p_value or 0.0 for one in peaks)))
    maxima = _maxima(blocks, len(values), generator, level)
    found.append(("maxima of blocks fit (Anderson-Darling)", maxima.p_value))
    done = tuple(Check(name=name, p_value=p_value, rejects_below=level) for name, p_value in found)
    refused = tuple(_refusal(one, series, places) for one in done if one.is_rejected)
    chosen = None if refused or taken is None else taken
    return Estimate(
        refused_because=refused,
        checks=done,
        block_events=maxima.events,
        blocks=maxima.count,
        thresholds=tuple(_threshold(one) for one in peaks),
        taken=taken,
        levels=() if chosen is None else tuple(_levels(series, peaks[chosen:], maxima)),
    )


def _peaks(tail: Array, below: float, generator: np.random.Generator, level: float) -> list[_Peaks]:
    """Fit ever fewer of the longest values; after one that is not rejected the fits are tested no more."""
    found: list[_Peaks] = []
    count, accepted = float(len(tail)), False
    while count >= _FEWEST_EXCESSES or not found:
        number = int(count)
        threshold = below if number == len(tail) else float(tail[-number - 1])
        excesses = np.maximum(tail[-number:] - threshold, 1e-6)
        if accepted:
            found.append(_Peaks(threshold, excesses, fit_pareto(excesses[None, :]), None))
        else:
            fit, p_value = checks.pareto_fits(excesses, generator, _DRAWS)
            found.append(_Peaks(threshold, excesses, fit, p_value))
            accepted = p_value >= level
        count /= math.sqrt(2.0)
    return found


def _blocks(values: Array, count: int) -> Array:
    size = len(values) // count
    return np.asarray(values[: size * count].reshape(count, size).max(axis=1))


def _maxima(blocks: list[Array], events: int, generator: np.random.Generator, level: float) -> _Maxima:
    """Take the most blocks whose maxima fit; of those that do not fit the last ones."""
    tried = None
    for maxima in blocks:
        fit, drawn, p_value = checks.extreme_fits(np.sort(maxima), generator, _DRAWS)
        tried = _Maxima(events // len(maxima), len(maxima), fit, drawn, p_value)
        if p_value >= level:
            break
    assert tried is not None  # noqa: S101 - 1,000 values are 50 blocks
    return tried


def _threshold(one: _Peaks) -> Threshold:
    return Threshold(
        exceedances=len(one.excesses),
        threshold_ns=one.threshold_ns,
        p_value=one.p_value,
        shape=-float(one.fit.k[0]),
        scale_ns=float(one.fit.scale[0]),
    )


def _levels(series: TailSeries, peaks: list[_Peaks], maxima: _Maxima) -> Iterator[Level]:
    events = len(series.values_ns)
    per_hour_events = 3600.0 * series.events_per_s
    chosen = peaks[0]
    region = pareto_region(chosen.excesses, CONFIDENCE)
    for per_hour in PER_HOUR:
        per_event = -math.expm1(math.log1p(-per_hour) / per_hour_events)
        conditional = per_event * events / len(chosen.excesses)
        if conditional >= 1.0:
            # So rare are values here that an hour seldom has one: nothing has to be extrapolated.
            continue
        low, high = region.interval(conditional)
        others = [one.level(per_event, events) for one in peaks if per_event * events < len(one.excesses)]
        expected = -maxima.events * math.log1p(-per_event)
        drawn = maxima.drawn.level(expected)
        ends = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        yield Level(
            per_hour=per_hour,
            per_event=per_event,
            level_ns=chosen.level(per_event, events),
            low_ns=chosen.threshold_ns + low,
            high_ns=None if high is None else chosen.threshold_ns + high,
            least_ns=min(others),
            most_ns=max(others),
            blocks_ns=float(maxima.fit.level(expected)[0]),
            blocks_low_ns=float(ends[0]),
            blocks_high_ns=float(ends[1]),
            beyond_watched=1.0 / (per_event * events),
        )


def _refusal(check: Check, series: TailSeries, places: NDArray[np.int64]) -> str:
    words = f"rejected is that {check.name}, p = {check.p_value:.2g}"
    if series.host_hit is not None and "the host interfered" in check.name:
        among, overall = int(series.host_hit[places].sum()), float(series.host_hit.mean())
        words += f" ({among} of the {len(places)} longest were hit, of all {100 * overall:.2g} %)"
    return words
