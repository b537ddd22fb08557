"""What a trace saw take the CPU beside the overheads that are charged."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Uncharged:
    """One kind of it, such as a softirq."""

    what: str
    longest_ns: int
    """Without what came on top of it."""
    count: int
    share_ppm: int
    """Of the time that was traced, in parts of a million."""


def together(parts: Iterable[Iterable[Uncharged]]) -> tuple[Uncharged, ...]:
    """Put together what several traces saw: of the longest and the share the largest, of the counts the sum."""
    found: dict[str, Uncharged] = {}
    for part in parts:
        for one in part:
            other = found.get(one.what, Uncharged(one.what, 0, 0, 0))
            found[one.what] = Uncharged(
                one.what,
                max(one.longest_ns, other.longest_ns),
                one.count + other.count,
                max(one.share_ppm, other.share_ppm),
            )
    return tuple(sorted(found.values(), key=lambda one: (-one.longest_ns, one.what)))
