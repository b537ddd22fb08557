"""For whom guests waited, over the whole time: shares of short windows of the trace, scaled to what was counted; pure.

The trace is looked at for a fiftieth of the time. What a guest waited from one window to the next is counted exactly,
and is divided as it was within the window. So the neighbours of a guest add up to its waiting. What no window tells of
goes to ``unknown``; how much of the time was traced is told beside it.
"""

import re
from collections.abc import Mapping

from stealtime.capacity.watch.state import Neighbours

UNKNOWN, OTHER = "unknown", "other"
MOST_NEIGHBOURS = 4
"""Of one guest, beside ``unknown`` and ``other``: the first ones that took a noticeable share."""
_NOTICEABLE = 0.02
_NUMBERED = re.compile(r"[/:#-]?\d.*$")
"""Kernel threads and workers have numbers in their names (``kworker/3:1-events``), as many as there are CPUs."""


class Blamed:
    """Adds windows up."""

    def __init__(self) -> None:
        self.wait_s: dict[str, dict[str, float]] = {}
        """Seconds, by guest and neighbour."""
        self.traced_s = 0.0
        self._counted_s: dict[str, float] = {}

    def add(self, window: Neighbours, waited_s: Mapping[str, float]) -> None:
        """Take a window.

        Args:
            window: What was seen in it.
            waited_s: What each guest has waited since it was first seen, all virtual CPUs together; guests that have
                ended are not in it, and are forgotten.
        """
        self.traced_s += window.window_s
        for ended in self.wait_s.keys() - waited_s.keys():
            del self.wait_s[ended]
        seen = _shares(window)
        for guest, total_s in waited_s.items():
            # A guest that began anew under the name of one that ended counts from 0.
            before_s = self._counted_s.get(guest, 0.0)
            gained_s = total_s - before_s if total_s >= before_s else total_s
            if gained_s > 0:
                self._divide(guest, gained_s, seen.get(guest, {}))
        self._counted_s = dict(waited_s)

    def _divide(self, guest: str, gained_s: float, shares: Mapping[str, float]) -> None:
        kept = self.wait_s.setdefault(guest, {})
        left_s = gained_s
        for neighbour, share in sorted(shares.items(), key=lambda one: -one[1]):
            named = len(kept.keys() - {UNKNOWN, OTHER})
            has_place = neighbour in kept or (share >= _NOTICEABLE and named < MOST_NEIGHBOURS)
            key = neighbour if has_place else OTHER
            kept[key] = kept.get(key, 0.0) + share * gained_s
            left_s -= share * gained_s
        kept[UNKNOWN] = kept.get(UNKNOWN, 0.0) + max(0.0, left_s)


def _shares(window: Neighbours) -> dict[str, dict[str, float]]:
    """Give, by guest, which share of what it waited in the window each neighbour took."""
    waited: dict[str, float] = {}
    for (guest, _), percent in window.waited_percent.items():
        waited[guest] = waited.get(guest, 0.0) + percent
    shares: dict[str, dict[str, float]] = {}
    for one in window.blames:
        if waited.get(one.guest, 0.0) > 0:
            name = one.neighbour if one.tid is None else _NUMBERED.sub("", one.neighbour) or one.neighbour
            own = shares.setdefault(one.guest, {})
            own[name] = own.get(name, 0.0) + one.percent / waited[one.guest]
    return shares
