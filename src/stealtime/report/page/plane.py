"""The ground on which figures stand: places in percent of the drawing, room for words in the height of a letter.

A drawing has no size of its own. What lies in it is placed in percent, and letters keep theirs, so that the same
drawing fits a wide screen, a telephone and paper, and nothing is drawn twice. Only the words that would meet on a
narrow screen are left out there, which the style sheet does. Pure.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 100.0
"""Of a drawing, in percent of itself."""
HEIGHT = 100.0
"""The same."""
LETTER = 0.56
"""The width of a letter as a share of its height: a little more than that of most."""
_GAP = 0.8
"""Between words that stand beside each other."""
_ROOM = {"narrow": 25.0, "middle": 44.0}
"""The least width of a figure with the room around its drawing, in letters' heights: 350 and 610 px."""


@dataclass(frozen=True)
class Tick:
    """A marked place on an axis."""

    at: float
    """In percent from the left."""
    words: str
    left_out: str
    """The classes of the words: where there is no room for them."""


def percent(share: float) -> float:
    """Give a share of a drawing as the page writes it."""
    return round(100.0 * share, 2)


def room_left_for(words: Sequence[str]) -> float:
    """Give the width that the words of a vertical axis take, with a gap; digits and signs are wide letters."""
    return round(room_for(words) + 1.3, 1)


def room_for(words: Sequence[str]) -> float:
    """Give the width that words take which stand below each other, in letters' heights."""
    return round(LETTER * max((len(one) for one in words), default=0), 1)


def ticks_of(places: Sequence[tuple[float, str]], beside: float, beside_narrow: float | None = None) -> list[Tick]:
    """Leave out the words that would meet others where a figure is narrow.

    Args:
        places: In percent from the left, with the words below them, in order.
        beside: What stands left and right of the drawing, in letters' heights.
        beside_narrow: The same where the figure is narrow, if it is less there.
    """
    needed = room_for([words for _, words in places]) + _GAP
    sides = {"narrow": beside if beside_narrow is None else beside_narrow, "middle": beside}
    gap = min((after - before for (before, _), (after, _) in itertools.pairwise(places)), default=100.0)
    steps = {name: _step(gap / 100.0 * max(1.0, _ROOM[name] - sides[name]), needed) for name in sides}
    return [
        Tick(
            round(at, 2), words, " ".join(f"no-{name}" for name, step in steps.items() if (len(places) - 1 - n) % step)
        )
        for n, (at, words) in enumerate(places)
    ]


def _step(gap: float, needed: float) -> int:
    return max(1, math.ceil(needed / max(gap, 1e-6)))
