"""A figure of one of a study's cells, to be compared with a published one."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A figure of a cell; durations are in ns."""

    value: float | None
    """Of all valid repetitions together; None where there is none that may be told."""
    of_repetitions: tuple[float, ...] = ()
    """Of each valid repetition alone."""
    samples: int | None = None
    """Of which it is the maximum, all repetitions together; None where it is no maximum."""
    p50: float | None = None
    """The median of the same quantity."""
    p9999: float | None = None
    """The 99.99th percentile of the same quantity; None where too few samples cannot tell it."""
    resolution: float = 0.0
    """By how much it can be off because a clock counts in units."""
    unusable: str | None = None
    """Why it may not be judged although the cell is valid, as the end of a sentence about it."""
    limit: str | None = None
    """A sentence about what limited it, in which ``{platforms}`` stands for all that it limited."""


@dataclass(frozen=True, kw_only=True)
class SeenPeriods:
    """What comes again after a time in the samples of a cell."""

    found: tuple[tuple[float, int], ...]
    """Each period in s, and in how many repetitions it was found."""
    repetitions: int
    """That were looked at."""
    watched_s: float
    """How long the shortest of them lasted."""
    unusable: str | None = None
    """Why nothing may be concluded from them, as the end of a sentence that begins with "because"."""
