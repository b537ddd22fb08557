"""Which verdict is worse, and how each is called in a few words."""

from collections import Counter
from collections.abc import Iterable, Mapping

from stealtime.capacity.rules import Verdict

_SEVERITY: Mapping[Verdict | None, int] = {
    "over-committed host": 0,
    "misplaced guests": 1,
    "under-provisioned guest": 2,
    "not judged": 3,
    None: 4,
    "efficiently provisioned": 5,
    "over-provisioned host": 6,
}
FAILING: Mapping[str, Verdict] = {
    "over-committed": "over-committed host",
    "misplaced": "misplaced guests",
    "under-provisioned": "under-provisioned guest",
    "over-provisioned": "over-provisioned host",
}
"""What ``--fail-on`` takes."""
TO_CHANGE: tuple[Verdict, ...] = ("over-committed host", "misplaced guests", "under-provisioned guest")
"""What somebody must see to."""


def severity(verdict: Verdict | None) -> int:
    """Give the place of a verdict where the worst stands first; None is none yet."""
    return _SEVERITY[verdict]


def counted(verdicts: Iterable[Verdict]) -> str:
    """Count verdicts on guests, the worst first: ``3 guests: 1 over-committed, 2 efficiently provisioned``."""
    counts = Counter(verdicts)
    total = counts.total()
    if not total:
        return "no guests"
    of_each = [f"{counts[one]} {short(one)}" for one in sorted(counts, key=severity)]
    return f"{total} {'guest' if total == 1 else 'guests'}: {', '.join(of_each)}"


def short(verdict: Verdict) -> str:
    """Give a verdict without whom it is about."""
    return verdict.removesuffix(" host").removesuffix(" guests").removesuffix(" guest")
