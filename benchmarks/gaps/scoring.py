"""How well one way of asking found gaps that are known."""

from bisect import bisect_left
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from gaps.watching import MS, PingGap, Seen

BOUND_NS = MS

SLACK_NS = 5_000
"""A frame is stamped some microseconds before the program looks at it, and the two clocks are compared to less."""


@dataclass
class Score:
    """Of gaps of one length."""

    gaps: int
    found: int = 0
    excused: int = 0
    """Not told, since the client says that it stood still itself."""
    within: int = 0
    """Found, and the length is told to a millisecond."""
    paused: int = 0
    """Found, but the length is not told to a millisecond, since the client says that it stood still beside it."""
    bracketed: int = 0
    """Found, and the length lies between the least and the most that are told."""
    unfounded: int = 0
    """Blackouts that touch no gap."""
    errors_ms: list[float] = field(default_factory=list)
    worst: list[dict[str, Any]] = field(default_factory=list)
    """What was told of those that are not within."""

    def line(self, name: str) -> str:
        """Give a row under :data:`HEAD`."""
        errors = sorted(self.errors_ms)
        spread = f"{errors[0]:9.2f}{median(errors):9.2f}{errors[-1]:9.2f}" if errors else ""
        share = 100 * self.within / max(1, self.gaps - self.excused)
        counts = f"{self.gaps:6}{self.found:7}{self.excused:8}{self.within:8} {share:6.2f} %"
        return f"  {name:14}{counts}{self.paused:8}{self.bracketed:11}{self.unfounded:11}{spread}"


HEAD = (
    "  over            gaps  found excused  within            paused  bracketed  unfounded"
    "   error min   median     max, ms"
)


def score(seen: Seen, way: dict[str, Any]) -> Score:
    """Hold what was told over one way against the gaps."""
    result = Score(gaps=len(seen.gaps))
    spans = [(one["from_monotonic_ns"], one["to_monotonic_ns"]) for one in way["blackouts"]]
    excuses = [(one["from_monotonic_ns"], one["from_monotonic_ns"] + one["silence_ns"]) for one in way["unjudged"]]
    starts = [start for start, _ in spans]
    hit: set[int] = set()
    for gap in seen.gaps:
        number = bisect_left(starts, gap.end_ns) - 1
        if number < 0 or spans[number][1] <= gap.start_ns:
            result.excused += any(first < gap.end_ns and gap.start_ns < last for first, last in excuses)
            continue
        hit.add(number)
        blackout = way["blackouts"][number]
        length_ns = gap.end_ns - gap.start_ns
        error_ns = blackout["length_ns"] - length_ns
        result.found += 1
        result.bracketed += blackout["at_least_ns"] - SLACK_NS <= length_ns <= blackout["at_most_ns"] + SLACK_NS
        result.errors_ms.append(error_ns / MS)
        if abs(error_ns) <= BOUND_NS:
            result.within += 1
        else:
            result.paused += blackout["own_pause_ns"] > 0
            result.worst.append({"error_ns": error_ns, "gap_ns": [gap.start_ns, gap.end_ns], **blackout})
    result.unfounded = len(spans) - len(hit)
    return result


def ping_score(seen: Seen, gaps: list[PingGap]) -> Score:
    """Hold what ping shows against the gaps."""
    result = Score(gaps=len(seen.gaps))
    for gap in seen.gaps:
        # It begins with the last answer, up to an interval before.
        hits = [
            one.length_ns
            for one in gaps
            if gap.start_ns - 150 * MS < one.at_ns <= gap.end_ns
            and one.at_ns + one.length_ns + 100 * MS >= gap.start_ns
        ]
        if hits:
            result.found += 1
            error_ns = hits[0] - (gap.end_ns - gap.start_ns)
            result.within += abs(error_ns) <= BOUND_NS
            result.errors_ms.append(error_ns / MS)
    return result
