"""What a trace saw take the CPU beside the overheads that are charged, and what bounds it in any window of time."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ArrivalCurve:
    """Takings of about the same length: at most ``ceil((window + jitter) / period)`` of ``cost`` in any window.

    Of a trace that is exact for what it saw: no window of it had more. It is a curve of periods with jitter, as in
    K. Richter, "Compositional Scheduling Analysis Using Standard Event Models" (Braunschweig, 2005).
    """

    cost_ns: int
    """The longest of them, without what came on top of it."""
    period_ns: int
    """The length of the trace by their number, or a part of that, which leaves less jitter."""
    jitter_ns: int
    """By which they came closer than that."""

    @property
    def at_once(self) -> int:
        """How many come in the shortest window."""
        return self.count_in(1)

    def count_in(self, window_ns: int) -> int:
        """Give how many there are in a window at most, in ns."""
        return -(-(window_ns + self.jitter_ns) // self.period_ns)


@dataclass(frozen=True)
class Uncharged:
    """One kind of it, such as a softirq."""

    what: str
    longest_ns: int
    """Without what came on top of it."""
    count: int
    share_ppm: int
    """Of the time that was traced, in parts of a million."""
    curves: tuple[ArrivalCurve, ...] = ()
    """By length: each of takings of which the longest is less than twice the shortest. None where nobody tells when
    they came."""


def together(parts: Iterable[Iterable[Uncharged]]) -> tuple[Uncharged, ...]:
    """Put together what several traces saw: of the longest and the share the largest, of the counts the sum.

    The curves hold for each of the traces.
    """
    found: dict[str, Uncharged] = {}
    for part in parts:
        for one in part:
            other = found.get(one.what, Uncharged(one.what, 0, 0, 0))
            # Where one trace does not tell when they came, no curve holds for it.
            told = all(each.curves for each in (one, other) if each.count)
            found[one.what] = Uncharged(
                one.what,
                max(one.longest_ns, other.longest_ns),
                one.count + other.count,
                max(one.share_ppm, other.share_ppm),
                joined((*one.curves, *other.curves)) if told else (),
            )
    return tuple(sorted(found.values(), key=lambda one: (-one.longest_ns, one.what)))


def joined(curves: Iterable[ArrivalCurve]) -> tuple[ArrivalCurve, ...]:
    """Give curves of which each holds for every one of its length that was given.

    With the shortest period T of them and a jitter J for which J / T is the largest, ``(w + J) / T`` is no less than
    that of any, for every window w.
    """
    of_length: dict[int, list[ArrivalCurve]] = {}
    for one in curves:
        of_length.setdefault(one.cost_ns.bit_length(), []).append(one)
    found = []
    for same in of_length.values():
        period_ns = min(one.period_ns for one in same)
        jitter_ns = max(-(-one.jitter_ns * period_ns // one.period_ns) for one in same)
        found.append(ArrivalCurve(max(one.cost_ns for one in same), period_ns, jitter_ns))
    return tuple(sorted(found, key=lambda one: -one.cost_ns))
