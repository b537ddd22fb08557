"""The one rule by which a ratio of ours agrees with a published one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stealtime.report.interval import CONFIDENCE, REPETITIONS_MIN, Interval
from stealtime.studies.latency.published.comparison_model import Judgement, Verdict

AGREEMENT_FACTOR = 2.0
"""Ratios of one direction agree up to this factor. A choice, not a law: of single maxima less cannot be asked."""
LEVEL_FACTOR = 1.1
"""A ratio this near to 1 has no direction: maxima of equal trials differ by so much easily."""
COUNT_FACTOR = 4.0
"""The two maxima of a ratio may come from numbers of samples this different: a maximum grows with their number."""
RULE = (
    f"a ratio of ours is that of the typical maxima of {REPETITIONS_MIN} or more repetitions of each side, with its "
    f"{CONFIDENCE:.0%} interval; agrees: wherever in the interval ours is, both ratios have the same direction (over "
    f"{LEVEL_FACTOR:g}: higher; under 1/{LEVEL_FACTOR:g}: lower; between: no difference) and are at most "
    f"{AGREEMENT_FACTOR:g} times apart, or at most {LEVEL_FACTOR:g} times whatever their directions; disagrees: "
    f"nowhere in it; not judged: the interval holds both, a side has fewer than {REPETITIONS_MIN} repetitions, a cell "
    "is missing, failed, invalid or has too few samples, the numbers of samples of the two maxima differ by more than "
    f"{COUNT_FACTOR:g} times, one of them may be a pause of RT throttling, or the scenario was skipped or scaled"
)
Direction = Literal["higher", "no difference", "lower"]


@dataclass(frozen=True)
class OurRatio:
    """A ratio of two of our maxima, and what else is known of it."""

    ratio: float
    p9999_ratio: float | None
    samples: tuple[int, int] | None
    """Of which the two are maxima; None for a mean of many."""
    interval: Interval | None = None
    """Of the ratio, from repetitions that took turns; None where there are too few."""


def judge(theirs: float, ours: OurRatio) -> Judgement:
    """Judge a positive ratio of ours against theirs: only where its whole interval says the same."""
    if ours.samples is not None and not may_stand_together(ours.samples):
        first, second = ours.samples
        because = (
            f"the two maxima are of {first:,} and of {second:,} samples, more than {COUNT_FACTOR:g} times apart, "
            "and a maximum grows with their number"
        )
        return not_judged(theirs, ours, because)
    if ours.interval is None:
        because = (
            f"one side has fewer than {REPETITIONS_MIN} repetitions, and maxima of equal trials differ by a factor: "
            f"measure with --repetitions {REPETITIONS_MIN}"
        )
        return not_judged(theirs, ours, because)
    verdict = _decide(theirs, ours.interval)
    between = f"{ours.interval.low:.3g} to {ours.interval.high:.3g} at {CONFIDENCE:.0%}"
    if verdict is None:
        because = (
            f"our repetitions cannot decide it: ours is {ours.ratio:.3g} ({between}), theirs {theirs:.3g}, and that "
            "holds both agreement and disagreement"
        )
        return not_judged(theirs, ours, because)
    apart = max(theirs, ours.ratio) / min(theirs, ours.ratio)
    words = (
        f"ours {ours.ratio:.3g} ({direction(ours.ratio)}; {between}), theirs {theirs:.3g} ({direction(theirs)}): "
        f"{apart:.3g} times apart, {_allowed(theirs, ours.ratio):g} are allowed"
    )
    if ours.samples is not None:
        words += f"; ours are maxima of {ours.samples[0]:,} and {ours.samples[1]:,} samples"
    if ours.p9999_ratio is not None and direction(ours.p9999_ratio) != direction(ours.ratio):
        words += f"; our 99.99th percentiles say {direction(ours.p9999_ratio)} ({ours.p9999_ratio:.3g})"
    return Judgement(
        theirs=theirs,
        ours=ours.ratio,
        ours_low=ours.interval.low,
        ours_high=ours.interval.high,
        ours_p9999=ours.p9999_ratio,
        verdict=verdict,
        words=words,
        because=None,
        but_for_scaling=None,
    )


def _decide(theirs: float, interval: Interval) -> Verdict | None:
    """Give the verdict that holds in the whole of an interval; None where there is none.

    The ratios that agree with theirs lie without a gap around theirs, so that two ends tell what is between them.
    """
    ends = [agrees(theirs, end) for end in (interval.low, interval.high)]
    if all(ends):
        return "agrees"
    return None if any(ends) or interval.low <= theirs <= interval.high else "disagrees"


def agrees(theirs: float, ours: float) -> bool:
    """Tell whether two positive ratios agree, as if both were known exactly."""
    return max(theirs, ours) / min(theirs, ours) <= _allowed(theirs, ours)


def _allowed(theirs: float, ours: float) -> float:
    return AGREEMENT_FACTOR if direction(theirs) == direction(ours) else LEVEL_FACTOR


def may_stand_together(samples: Sequence[int | None]) -> bool:
    """Tell whether maxima of so many samples may be compared; None is an unknown number."""
    known = [count for count in samples if count is not None]
    return len(known) == len(samples) and max(known) <= COUNT_FACTOR * min(known)


def not_judged(theirs: float, ours: OurRatio | None, because: str) -> Judgement:
    """Say why a ratio has no verdict; it may be there all the same."""
    interval = None if ours is None else ours.interval
    return Judgement(
        theirs=theirs,
        ours=None if ours is None else ours.ratio,
        ours_low=None if interval is None else interval.low,
        ours_high=None if interval is None else interval.high,
        ours_p9999=None if ours is None else ours.p9999_ratio,
        verdict="not judged",
        words=f"not judged, because {because}",
        because=because,
        but_for_scaling=None,
    )


def not_judged_for_scaling(theirs: float, ours: OurRatio, because: str) -> Judgement:
    """Say that a scaled scenario is why there is no verdict, and what it would be otherwise."""
    otherwise = judge(theirs, ours)
    if otherwise.verdict == "not judged":
        return not_judged(theirs, ours, f"{because}; {otherwise.because}")
    return not_judged(theirs, ours, because).model_copy(
        update={
            "but_for_scaling": otherwise.verdict,
            "words": f"not judged, because {because}; but for that {otherwise.verdict}: {otherwise.words}",
        }
    )


def direction(ratio: float) -> Direction:
    """Say what a positive ratio says."""
    if ratio > LEVEL_FACTOR:
        return "higher"
    return "lower" if ratio < 1 / LEVEL_FACTOR else "no difference"
