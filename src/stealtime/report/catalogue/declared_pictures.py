"""What a study declares of a picture; :mod:`.pictures` draws it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A picture of durations: for each cell a dot, and a line to a second figure, on one logarithmic axis."""

    title: str
    axis: str
    """What is on it."""
    caption: str
    line: str
    """What the line reaches, as in ``99 % within``."""
    groups: Mapping[str, tuple[str, str]]
    """The two figures of each group of rows, by the group's title: of the dot, and of the line's end."""

    @property
    def figures(self) -> tuple[str, ...]:
        """All that a cell must have to be in it."""
        return tuple(name for pair in self.groups.values() for name in pair)


@dataclass(frozen=True)
class TimeLine:
    """A picture of what happened when, in one repetition of each cell: all figures of that one belong together."""

    title: str
    axis: str
    """Since when time is counted."""
    caption: str
    zero: str
    """What happened then."""
    moments: Mapping[str, tuple[str, ...]]
    """What happened later, and the figure that tells when, less those that follow."""
    lasting: Mapping[str, tuple[str, str]]
    """What lasted: the figure of its length, and that of its end. The repetition that is drawn is the one in which the
    first of them is the middle one."""

    @property
    def figures(self) -> tuple[str, ...]:
        """All that a cell must have to be in it."""
        return tuple(name for names in (*self.moments.values(), *self.lasting.values()) for name in names)
