"""The arithmetic over ``epochs.csv``: pure functions, so that they are tested without a guest.

A row is an epoch by the names of its columns (``crates/replicator/src/epoch_log.rs``): times in ns of the monotonic
clock, which is one for all processes of a machine.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

Row = Mapping[str, int]

PAUSE_PARTS = ("stop_ns", "cut_ns", "save_ns", "scan_ns", "copy_ns", "continue_ns")
"""They add up to ``pause_ns``."""

_LATE = 1.5
"""An epoch that begins later than this many intervals after the one before has missed its turn."""


def between(rows: Iterable[Row], from_ns: int, to_ns: int) -> list[Row]:
    """Give the epochs that began in a time, its end not included."""
    return [row for row in rows if from_ns <= row["begin_ns"] < to_ns]


def values(rows: Iterable[Row], column: str) -> list[int]:
    """Give one column."""
    return [row[column] for row in rows]


def quantile(numbers: Sequence[float], share: float) -> float:
    """Give the smallest number that at least this share of all do not exceed.

    Raises:
        ValueError: There are none.
    """
    if not numbers:
        raise ValueError("there is no quantile of nothing")
    return sorted(numbers)[max(0, math.ceil(share * len(numbers)) - 1)]


def gaps_ns(rows: Sequence[Row]) -> list[int]:
    """Give the times from the beginning of each epoch to that of the next."""
    return [later["begin_ns"] - earlier["begin_ns"] for earlier, later in pairwise(rows)]


def rate_per_s(rows: Sequence[Row]) -> float:
    """Give how many epochs began each second, from the first to the last.

    Raises:
        ValueError: There are fewer than two.
    """
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} epochs make no rate")
    return (len(rows) - 1) * 1e9 / (rows[-1]["begin_ns"] - rows[0]["begin_ns"])


def missed(rows: Sequence[Row], interval_ns: int) -> int:
    """Give how many epochs should have begun between the first and the last and did not.

    A late epoch that did begin is none of them: only whole intervals in which none began count.
    """
    return sum(max(0, round(gap / interval_ns) - 1) for gap in gaps_ns(rows) if gap > _LATE * interval_ns)


def parts_ns(rows: Sequence[Row]) -> dict[str, float]:
    """Give the median of each part of the pause."""
    return {part: median(values(rows, part)) for part in PAUSE_PARTS}


def overlapping_share(rows: Sequence[Row], others: Iterable[Row]) -> float:
    """Give the share of the pauses in which another guest of the host stood too, at least for a moment."""
    spans = sorted((row["begin_ns"], row["begin_ns"] + row["pause_ns"]) for row in others)
    overlapping = sum(
        any(begin < row["begin_ns"] + row["pause_ns"] and row["begin_ns"] < end for begin, end in spans) for row in rows
    )
    return overlapping / len(rows) if rows else math.nan


def phase_share(rows: Sequence[Row], interval_ns: int) -> float:
    """Give where in the interval a guest's epochs begin, as a share of it from 0 to 1: the middle on the circle."""
    angles = [2 * math.pi * (row["begin_ns"] % interval_ns) / interval_ns for row in rows]
    middle = math.atan2(sum(map(math.sin, angles)), sum(map(math.cos, angles)))
    return middle / (2 * math.pi) % 1.0


def slowdown_percent(plain_per_s: float, protected_per_s: float) -> float:
    """Give how much less work a guest does when it is protected, in percent of what it does unprotected."""
    return 100.0 * (1.0 - protected_per_s / plain_per_s)
