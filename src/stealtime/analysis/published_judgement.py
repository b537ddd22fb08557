"""The one rule by which a ratio of ours agrees with a published one."""

from dataclasses import dataclass
from typing import Literal

from stealtime.analysis.published_model import Judgement

AGREEMENT_FACTOR = 2.0
"""Ratios of one direction agree up to this factor. A choice, not a law: of single maxima less cannot be asked."""
LEVEL_FACTOR = 1.1
"""A ratio this near to 1 has no direction: maxima of equal trials differ by so much easily."""
COUNT_FACTOR = 4.0
"""The two maxima of a ratio may come from numbers of samples this different: a maximum grows with their number."""
RULE = (
    f"agrees: both ratios have the same direction (over {LEVEL_FACTOR:g}: higher; under 1/{LEVEL_FACTOR:g}: lower; "
    f"between: no difference) and are at most {AGREEMENT_FACTOR:g} times apart, or at most {LEVEL_FACTOR:g} times "
    "whatever their directions; disagrees: otherwise; not judged: a cell is missing, failed, invalid or has too few "
    f"samples, the numbers of samples of the two maxima differ by more than {COUNT_FACTOR:g} times, one of them may be "
    "a pause of RT throttling, or the scenario was skipped or scaled"
)
Direction = Literal["higher", "no difference", "lower"]


@dataclass(frozen=True)
class OurRatio:
    """A ratio of two of our maxima, and what else is known of it."""

    ratio: float
    p9999_ratio: float | None
    samples: tuple[int, int] | None
    """Of which the two are maxima; None for a mean of many."""
    span: tuple[float, float] | None = None
    """The smallest and the largest ratio between repetitions; None where that cannot be told."""


def judge(theirs: float, ours: OurRatio) -> Judgement:
    """Judge a positive ratio of ours against theirs."""
    if ours.samples is not None and max(ours.samples) > COUNT_FACTOR * min(ours.samples):
        first, second = ours.samples
        because = (
            f"the two maxima are of {first:,} and of {second:,} samples, more than {COUNT_FACTOR:g} times apart, "
            "and a maximum grows with their number"
        )
        return not_judged(theirs, ours, because)
    apart = max(theirs, ours.ratio) / min(theirs, ours.ratio)
    is_same_direction = direction(theirs) == direction(ours.ratio)
    allowed = AGREEMENT_FACTOR if is_same_direction else LEVEL_FACTOR
    words = (
        f"ours {ours.ratio:.3g} ({direction(ours.ratio)}), theirs {theirs:.3g} ({direction(theirs)}): "
        f"{apart:.3g} times apart, {allowed:g} are allowed"
    )
    if ours.samples is not None:
        words += f"; ours are maxima of {ours.samples[0]:,} and {ours.samples[1]:,} samples"
    if ours.span is not None:
        words += f"; from {ours.span[0]:.3g} to {ours.span[1]:.3g} between our repetitions"
    if ours.p9999_ratio is not None and direction(ours.p9999_ratio) != direction(ours.ratio):
        words += f"; our 99.99th percentiles say {direction(ours.p9999_ratio)} ({ours.p9999_ratio:.3g})"
    return Judgement(
        theirs=theirs,
        ours=ours.ratio,
        ours_low=None if ours.span is None else ours.span[0],
        ours_high=None if ours.span is None else ours.span[1],
        ours_p9999=ours.p9999_ratio,
        verdict="agrees" if apart <= allowed else "disagrees",
        words=words,
        because=None,
        but_for_scaling=None,
    )


def not_judged(theirs: float, ours: OurRatio | None, because: str) -> Judgement:
    """Say why a ratio has no verdict; it may be there all the same."""
    low, high = (None, None) if ours is None or ours.span is None else ours.span
    return Judgement(
        theirs=theirs,
        ours=None if ours is None else ours.ratio,
        ours_low=low,
        ours_high=high,
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
