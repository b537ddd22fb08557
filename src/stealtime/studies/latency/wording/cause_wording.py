"""Causes and the overhead of tracing in words."""

from stealtime.report import notation
from stealtime.studies.latency.attribution.cells import ProbeCauses, TracedCell
from stealtime.studies.latency.attribution.model import PeriodicCause, Shift, TracingOverhead

_LEAST_NS = 0.1
_PAIRS_MIN = 7
"""All of n pairs have one sign by chance in 2 / 2^n of cases, and three figures of a cell are looked at: with seven
pairs a claim about a cell is chance in less than 5 %, with six in 9 %, with three in more than half."""


def overhead_in_words(cost: TracingOverhead) -> str:
    """Say what the shifts of floor, p99.9 and maximum mean; a shift counts as seen if all pairs agree on its sign."""
    named = (
        ("the floor", cost.floor_shift_ns),
        ("the 99.9th percentile", cost.p999_shift_ns),
        ("the maximum", cost.max_shift_ns),
    )
    if cost.pairs < _PAIRS_MIN:
        few = "one pair" if cost.pairs == 1 else f"the median of {cost.pairs} pairs"
        seen = ", ".join(f"{name} {signed_duration(shift.median_ns)}" for name, shift in named)
        return f"{few}: {seen}; this may be chance, {_PAIRS_MIN} pairs that agree would not be"
    clear = [f"{name} {_moved(shift)}" for name, shift in named if not shift.min_ns <= 0 <= shift.max_ns]
    unclear = [name for name, shift in named if shift.min_ns <= 0 <= shift.max_ns]
    sentences = [f"tracing moved {', '.join(clear)}"] if clear else []
    if unclear:
        sentences.append(f"{' and '.join(unclear)}: the pairs do not agree on a direction, so none is claimed")
    return "; ".join(sentences)


def held_back_alone(probe: ProbeCauses) -> list[str]:
    """Say what remains of the lost time of a platform that alone was held back by a limit on real-time threads."""
    return [
        f"{platform} alone was held back by RT throttling, a limit of its own kernel. Without it {platform} lost in a "
        f"second: {', '.join(map(_without_limit, cells))}. Compare these with the others, or measure with "
        "--lift-rt-throttling"
        for platform, cells in probe.held_back_alone.items()
    ]


def _without_limit(cell: TracedCell) -> str:
    all_ns, rest_ns = cell.lost_ns_per_s, cell.lost_ns_per_s - cell.held_back_ns_per_s
    return f"{notation.duration(max(0.0, rest_ns), 3)} of {notation.duration(all_ns, 3)} in {cell.scenario}"


def periodic_in_words(periodic: PeriodicCause) -> str:
    """Say what is behind a period, which is given with four digits: more would not be known."""
    every = f"every {notation.duration(periodic.period.period_s * 1e9)}"
    _, _, what = periodic.text.partition(": ")
    return f"{every}: {what}" if what else periodic.text


def signed_duration(nanoseconds: float) -> str:
    """Write a shift with its sign; less than a tenth of a nanosecond is none, a cycle of any counter takes longer."""
    if abs(nanoseconds) < _LEAST_NS:
        return "0"
    return notation.duration(nanoseconds, 3) if nanoseconds <= 0 else f"+{notation.duration(nanoseconds, 3)}"


def _moved(shift: Shift) -> str:
    return f"{'up' if shift.median_ns > 0 else 'down'} by {notation.duration(abs(shift.median_ns), 3)}"
