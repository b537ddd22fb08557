"""A run held against bars, as models: what ``stealtime show RUN --accept NAME --json`` prints."""

from typing import Literal

from stealtime.report.cells.figures import Figures, NamedCell

SCHEMA_VERSION = 1
"""Of :class:`Acceptance`; rises when an older reader could misunderstand a newer document."""

Verdict = Literal["passed", "failed", "watched too short", "not judged"]


class HeldCell(NamedCell):
    """A cell beside the bar of a quantity that it measures."""

    quantity: str
    at_most_ns: int
    to_be_watched_s: float
    longest_ns: float | None
    """None where nothing was measured."""
    watched_s: float
    """Of all valid repetitions together."""
    verdict: Verdict
    over_ns: float | None
    """How far beyond the bar; None where it is not."""
    because: str | None
    """Why it is not judged."""


class Acceptance(Figures):
    """All bars, and all cells that measure one of their quantities."""

    schema_version: Literal[1] = 1
    run_id: str
    bars: str
    """The name or the file."""
    title: str
    source: str | None
    conditions: str | None
    """Under which the bars hold, as their source says it; they are not checked."""
    verdict: Verdict
    """The worst: failed, not judged, watched too short, passed."""
    cells: tuple[HeldCell, ...]
    unmeasured: tuple[str, ...]
    """Quantities of bars that no cell measures, which makes the verdict "not judged"."""
    missing: tuple[str, ...] = ()
    """What of the run is not there though it was planned, which makes the verdict "not judged" as well."""
