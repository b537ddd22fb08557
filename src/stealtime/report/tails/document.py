"""A tail's estimate, as models: what ``stealtime show RUN --tails --json`` prints."""

from typing import Literal

from stealtime.report.cells.figures import Figures, NamedCell

SCHEMA_VERSION = 1
"""Of :class:`Tails`; rises when an older reader could misunderstand a newer document."""


class Check(Figures):
    """A condition of the estimate, and what a test says of it."""

    name: str
    p_value: float
    """How probable it is that values that meet the condition look as bad as these."""
    rejects_below: float
    """The level of this test; all tests together reject good values at most at the level of the document."""

    @property
    def is_rejected(self) -> bool:
        return self.p_value < self.rejects_below


class Threshold(Figures):
    """Excesses over one threshold."""

    exceedances: int
    threshold_ns: float
    p_value: float | None
    """Of the fit; None: not tested, because a lower threshold was taken already."""
    shape: float
    """Below 0 the tail has an upper end; from 0.5 on its variance is infinite."""
    scale_ns: float


class Level(Figures):
    """A value that is exceeded with a probability in an hour."""

    per_hour: float
    per_event: float
    level_ns: float
    low_ns: float
    high_ns: float | None
    """None: the values do not bound it."""
    least_ns: float
    """The least and the most that other thresholds give."""
    most_ns: float
    blocks_ns: float
    """What maxima of blocks give, with the ends of its interval."""
    blocks_low_ns: float
    blocks_high_ns: float
    beyond_watched: float
    """How many times as long as was watched one would have to wait for it, on the average."""


class TailEstimate(NamedCell):
    """One cell: the longest value seen, and beside it what may be said of longer ones."""

    events: int
    events_per_hour: float | None
    """None where nothing was measured."""
    watched_s: float
    longest_ns: float | None
    """The longest value seen."""
    refused_because: tuple[str, ...]
    """Why there is no estimate; empty where there is one."""
    checks: tuple[Check, ...]
    block_events: int | None
    blocks: int | None
    thresholds: tuple[Threshold, ...]
    """In the order in which they were tried; the first that is not rejected is taken."""
    taken: int | None
    """Which of them; None where all are rejected or none was tried."""
    levels: tuple[Level, ...]


class Tails(Figures):
    """All cells whose values have a tail."""

    schema_version: Literal[1] = 1
    run_id: str
    confidence_percent: float
    level_percent: float
    """How many good series all checks together refuse, at most."""
    seed: int
    cells: tuple[TailEstimate, ...]
