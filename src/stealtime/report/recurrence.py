"""Which length of stalls recurs in the repetitions of one run and not in those of another.

A thief with a timetable takes about as long each time; what a busy host takes by itself is of any length. So a stall of
5.0 to 5.3 ms in each of twelve repetitions stands out even from a burst that gave half of the other run's repetitions a
stall of 4 to 25 ms, where neither their number nor the longest of each repetition says anything.

Lengths are divided into bands whose ends lie a factor of :data:`WIDTH` apart; each begins in the middle of the one
before. In each band Fisher's exact test compares in how many repetitions of either run there is a stall of it (R. A.
Fisher, *Statistical Methods for Research Workers*, 5th ed., 1934, sect. 21.02), at a confidence of 99 % for all bands
together (Bonferroni). Which bands there are depends on the longest stall of both runs together, not on whose it is.
``benchmarks/different_runs.py`` shows what is found so, and what of equal runs is called different.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom
from scipy.stats.contingency import odds_ratio

from stealtime.report.interval import Interval

CONFIDENCE_OF_RECURRENCE = 0.99
WIDTH = 1.15
"""An injected theft of 5 ms lasts 5.0 to 5.3 ms by the samples of a native, a UML and a TCG probe."""
_SHORTEST_NS = 10_000.0
"""Below it a stall is what an interrupt takes, of which each repetition has many."""


@dataclass(frozen=True)
class Repetition:
    """The stalls of one repetition."""

    lengths_ns: Sequence[float]
    """Over the floor; the longest ones."""
    complete_from_ns: float
    """All that are as long are among them; shorter ones may be missing."""


@dataclass(frozen=True)
class Recurrence:
    """A band of lengths, and how many repetitions of each run have a stall in it."""

    from_ns: float
    to_ns: float
    a_repetitions: int
    b_repetitions: int
    odds: Interval
    """How many times the odds of a repetition of a that there is one those of b are, simultaneous with the other bands;
    its ends are 0 and infinite where a run has it in none or in each."""
    bands: int
    """How many were looked at."""

    @property
    def method(self) -> str:
        return (
            f"of {self.bands} lengths the one that sets the runs apart most: the odds that a repetition has a stall of "
            f"it (Fisher, exact); {CONFIDENCE_OF_RECURRENCE:.0%} confidence for all lengths together (Bonferroni)"
        )


def judge_recurrence(a: Sequence[Repetition], b: Sequence[Repetition]) -> tuple[Recurrence | None, str | None]:
    """Find the length that recurs in one run and not in the other, or say why none can be told.

    Where no length does so, the one is given that comes closest, of those whose odds have two ends.

    Args:
        a: The base of the ratio, of each repetition its longest stalls.
        b: The other run.
    """
    starts_ns = _starts_ns(a, b)
    bands, sizes = len(starts_ns), (len(a), len(b))
    if bands == 0:
        return None, "no stall of a repetition is long enough"
    beyond = (1.0 - CONFIDENCE_OF_RECURRENCE) / 2.0 / bands
    if _chances(np.array([sizes[0]]), np.array([0]), sizes)[0] >= beyond:
        return None, f"{sizes[0]} and {sizes[1]} valid repetitions are too few for {bands} lengths of stalls"
    in_a, in_b = _repetitions_with(a, starts_ns), _repetitions_with(b, starts_ns)
    chances = _chances(in_a, in_b, sizes)
    # The interval of the odds has two ends where b could have had it in more and in fewer of as many.
    fewest, most = np.maximum(0, in_a + in_b - sizes[0]), np.minimum(in_a + in_b, sizes[1])
    told = np.flatnonzero((chances < beyond) | ((fewest < in_b) & (in_b < most)))
    if len(told) == 0:
        return None, "no length of stalls sets the runs apart, and none is in some but not all repetitions of both"
    # Of equal ones the longest stalls, which matter most.
    band = min(told.tolist(), key=lambda band: (chances[band], -band))
    pair, from_ns = (int(in_a[band]), int(in_b[band])), float(starts_ns[band])
    return Recurrence(from_ns, from_ns * WIDTH, *pair, _odds(pair, sizes, 1.0 - 2.0 * beyond), bands), None


def _starts_ns(*runs: Sequence[Repetition]) -> NDArray[np.float64]:
    """Give where each band begins: the last one holds the longest stall, and the first one is complete in both runs."""
    repetitions = [one for run in runs for one in run]
    first_ns = max([_SHORTEST_NS, *(one.complete_from_ns for one in repetitions)])
    longest_ns = max((one for repetition in repetitions for one in repetition.lengths_ns), default=0.0)
    if longest_ns <= first_ns:
        return np.empty(0)
    steps = np.arange(floor(2.0 * log(longest_ns / first_ns) / log(WIDTH)) + 1)
    return np.asarray(first_ns * sqrt(WIDTH) ** steps, dtype=np.float64)


def _repetitions_with(run: Sequence[Repetition], starts_ns: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count for each band the repetitions that have a stall in it."""
    has = np.zeros(len(starts_ns), dtype=np.int64)
    for one in run:
        lengths_ns = np.sort(one.lengths_ns)
        has += np.searchsorted(lengths_ns, starts_ns * WIDTH) > np.searchsorted(lengths_ns, starts_ns)
    return has


def _chances(in_a: NDArray[np.int64], in_b: NDArray[np.int64], sizes: tuple[int, int]) -> NDArray[np.float64]:
    """Give for each band how likely equal runs are to differ as much, or more, in the same direction."""
    all_of_them = (sum(sizes), in_a + in_b, sizes[1])
    as_many, as_few = hypergeom.sf(in_b - 1, *all_of_them), hypergeom.cdf(in_b, *all_of_them)
    return np.asarray(np.minimum(as_many, as_few), dtype=np.float64)


def _odds(pair: tuple[int, int], sizes: tuple[int, int], confidence: float) -> Interval:
    without = [size - count for count, size in zip(pair, sizes, strict=True)]
    found = odds_ratio([[pair[1], without[1]], [pair[0], without[0]]], kind="conditional")
    limits = found.confidence_interval(confidence)
    return Interval(value=float(found.statistic), low=float(limits.low), high=float(limits.high))
