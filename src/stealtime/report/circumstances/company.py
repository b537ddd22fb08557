"""Whether two runs had their CPUs for themselves alike: who else runs is a circumstance, and no fact tells it.

A program that spins on a measured CPU slows a guest down, and shows in its figures. Natively a probe of real-time
priority is before it, and the CPU that it keeps awake makes wake-ups sooner if anything: only how much of the CPU it
had tells that it was there.
"""

from collections.abc import Sequence

from stealtime.campaigns.strangers import LIMITS_FROM
from stealtime.report.cells.model import CellFigures
from stealtime.report.circumstances.differences import Difference
from stealtime.report.notation import three_digits

OTHERS = "others' share of the measured CPUs"
APART = LIMITS_FROM
"""By so much of the time at least shares must differ to be told. Equal runs differed by 2 % at most, and those with a
hog on the CPU for half of the time from those without by 13 % or more (``benchmarks/different_runs.py``)."""


def differences_of_company(a: Sequence[CellFigures], b: Sequence[CellFigures]) -> list[Difference]:
    """Give each platform on which others had clearly more of the measured CPUs in one run than in the other.

    Args:
        a: The cells of a run.
        b: Those of the other one; only cells that both have are looked at.
    """
    common = {cell.key for cell in a} & {cell.key for cell in b}
    first, second = (_shares([cell for cell in cells if cell.key in common]) for cells in (a, b))
    return [
        Difference(what=OTHERS, where=[platform], a=_percent(first[platform]), b=_percent(second[platform]))
        for platform in first
        if platform in second and abs(first[platform] - second[platform]) >= APART
    ]


def _shares(cells: Sequence[CellFigures]) -> dict[str, float]:
    """Give what others had of the time of all trials, by platform; only of platforms of which something is known."""
    watched_s: dict[str, float] = {}
    taken_s: dict[str, float] = {}
    for cell in cells:
        if cell.strangers is not None and cell.strangers.watched_s > 0.0:
            watched_s[cell.platform] = watched_s.get(cell.platform, 0.0) + cell.strangers.watched_s
            taken_s[cell.platform] = taken_s.get(cell.platform, 0.0) + cell.strangers.taken_s
    return {platform: taken_s[platform] / watched_s[platform] for platform in watched_s}


def _percent(share: float) -> str:
    return f"{three_digits(100 * share)} %"
