"""What a time line is made of, whoever draws it: tracks, and marks on them. Times are ns of the host's clock.

Marks of one track come in the order of their times; a :class:`Slice` counts at its begin. So a writer keeps none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stealtime.store.host_line import HostLine

Arguments = Mapping[str, str | int | float | bool]
_NOTHING: Arguments = {}


@dataclass(frozen=True, eq=False)
class Track:
    """A line of the picture; two are the same only if they are one object."""

    name: str
    parent: "Track | None" = None
    is_time: bool = False
    """Whether it is a counter of nanoseconds."""
    is_counter: bool = False


class Slice(NamedTuple):
    """From when to when something was so."""

    track: Track
    at_ns: int
    duration_ns: int
    name: str
    category: str
    arguments: Arguments = _NOTHING
    flows: tuple[int, ...] = ()
    """Arrows that begin here, each with a number of :func:`next_flow`."""
    ends_flow: int | None = None
    """The arrow that ends here."""


class Begin(NamedTuple):
    """A slice whose end comes later."""

    track: Track
    at_ns: int
    name: str
    category: str
    arguments: Arguments = _NOTHING


class End(NamedTuple):
    """The end of the slice that began last on a track and has none."""

    track: Track
    at_ns: int


class Instant(NamedTuple):
    """Something without length."""

    track: Track
    at_ns: int
    name: str
    category: str
    arguments: Arguments = _NOTHING


class Value(NamedTuple):
    """A counter's value from here on."""

    track: Track
    at_ns: int
    value: float


_flows = count(1)


def next_flow() -> int:
    """Give the number of a new arrow: it goes from the slice that begins it to the one that ends it."""
    return next(_flows)


Mark = Slice | Begin | End | Instant | Value


@dataclass(frozen=True)
class TrialMarks:
    """What a study draws of a trial."""

    line: "HostLine | None"
    """Where the trial lies on the host's clock; a study may know that better than the exchanges of clocks say."""
    marks: Iterable[Mark] = ()
    left_out: list[str] = field(default_factory=list)
    """What of the trial is not among the marks, and why, a sentence each."""
