"""The rules by which a figure or a ratio of ours agrees with a published one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stealtime.report.claims.document import Judgement, Verdict
from stealtime.report.claims.model import RuleName
from stealtime.report.interval import CONFIDENCE, REPETITIONS_MIN, Interval
from stealtime.report.notation import three_digits

AGREEMENT_FACTOR = 2.0
"""Ratios of one direction agree up to this factor. A choice, not a law: of single maxima less cannot be asked."""
LEVEL_FACTOR = 1.1
"""A ratio this near to 1 has no direction: maxima of equal trials differ by so much easily."""
COUNT_FACTOR = 4.0
"""The two maxima of a ratio may come from numbers of samples this different: a maximum grows with their number."""
_RATIO_WORDS = (
    f"a ratio of ours is that of the typical maxima of {REPETITIONS_MIN} or more repetitions of each side, with its "
    f"{CONFIDENCE:.0%} interval; agrees: wherever in the interval ours is, both ratios have the same direction (over "
    f"{LEVEL_FACTOR:g}: higher; under 1/{LEVEL_FACTOR:g}: lower; between: no difference) and are at most "
    f"{AGREEMENT_FACTOR:g} times apart, or at most {LEVEL_FACTOR:g} times whatever their directions; disagrees: "
    f"nowhere in it; not judged: the interval holds both, a side has fewer than {REPETITIONS_MIN} repetitions, a cell "
    "is missing, failed, invalid or has too few samples, the numbers of samples of the two maxima differ by more than "
    f"{COUNT_FACTOR:g} times, one of them may be a pause of RT throttling, or the scenario was skipped or scaled"
)
_FIGURE_RATIO_WORDS = (
    f"a ratio of ours is that of typical figures of {REPETITIONS_MIN} or more repetitions of each side, with its "
    f"{CONFIDENCE:.0%} interval; agrees: wherever in the interval ours is, both ratios have the same direction and are "
    f"at most {AGREEMENT_FACTOR:g} times apart, or at most {LEVEL_FACTOR:g} times; disagrees: nowhere in it; not "
    f"judged: the interval holds both, a side has fewer than {REPETITIONS_MIN} repetitions, or a cell is missing, "
    "failed or invalid"
)
_FIGURE_WORDS = (
    f"a figure of ours agrees: in every repetition it is within a factor of {LEVEL_FACTOR:g} of theirs; "
    "disagrees: in none; not judged: the repetitions hold both, or its cell is missing, failed or invalid, or the "
    "scenario was skipped or scaled"
)
_EQUAL_WORDS = (
    f"a ratio of ours is that of the typical times of {REPETITIONS_MIN} or more repetitions of each side, with its "
    f"{CONFIDENCE:.0%} interval; agrees: the whole interval is within a factor of {LEVEL_FACTOR:g} of theirs; "
    f"disagrees: none of it is; not judged: it holds both, a side has fewer than {REPETITIONS_MIN} repetitions, a cell "
    "is missing, failed or invalid, or the scenario was skipped or scaled"
)
RULES: dict[RuleName, str] = {
    "ratio": _RATIO_WORDS,
    "figure_ratio": _FIGURE_RATIO_WORDS,
    "equal_ratio": _EQUAL_WORDS,
    "figure": _FIGURE_WORDS,
}
_DIRECTED: tuple[RuleName, ...] = ("ratio", "figure_ratio")
"""Whose direction counts: within it theirs may be another machine's."""
"""How each finds its verdict, in words."""
Direction = Literal["higher", "no difference", "lower"]


@dataclass(frozen=True)
class Ours:
    """A figure of ours or the ratio of two, and what else is known of it."""

    value: float
    p9999: float | None
    """The same ratio of 99.99th percentiles."""
    samples: tuple[int, int] | None
    """Of which the two of a ratio are maxima; None for a mean of many, and for a figure itself."""
    interval: Interval | None = None
    """Of a ratio, from repetitions that took turns, None where there are too few; of a figure, of its repetitions."""


def judge(theirs: float, ours: Ours, rule: RuleName = "ratio") -> Judgement:
    """Judge a positive figure or ratio of ours against theirs: only where its whole interval says the same."""
    if ours.samples is not None and not may_stand_together(ours.samples):
        first, second = ours.samples
        because = (
            f"the two maxima are of {first:,} and of {second:,} samples, more than {COUNT_FACTOR:g} times apart, "
            "and a maximum grows with their number"
        )
        return not_judged(theirs, ours, because)
    if ours.interval is None:
        because = (
            f"one side has fewer than {REPETITIONS_MIN} repetitions"
            f"{', and maxima of equal trials differ by a factor' if rule == 'ratio' else ''}: "
            f"measure with --repetitions {REPETITIONS_MIN}"
        )
        return not_judged(theirs, ours, because)
    verdict = _decide(theirs, ours.interval, rule)
    between = f"{three_digits(ours.interval.low)} to {three_digits(ours.interval.high)}"
    if rule != "figure":
        between += f" at {CONFIDENCE:.0%}"
    if verdict is None:
        because = (
            f"our repetitions cannot decide it: ours is {three_digits(ours.value)} ({between}), theirs "
            f"{three_digits(theirs)}, and that holds both agreement and disagreement"
        )
        return not_judged(theirs, ours, because)
    return _judgement(theirs, ours, verdict, _words(theirs, ours, between, rule))


def _words(theirs: float, ours: Ours, between: str, rule: RuleName) -> str:
    """Tell the values that a verdict stands on."""
    own, other = between, three_digits(theirs)
    if rule in _DIRECTED:
        own, other = f"{direction(ours.value)}; {between}", f"{three_digits(theirs)} ({direction(theirs)})"
    apart = max(theirs, ours.value) / min(theirs, ours.value)
    words = (
        f"ours {three_digits(ours.value)} ({own}), theirs {other}: "
        f"{three_digits(apart)} times apart, {_allowed(theirs, ours.value, rule):g} are allowed"
    )
    if ours.samples is not None:
        words += f"; ours are maxima of {ours.samples[0]:,} and {ours.samples[1]:,} samples"
    if ours.p9999 is not None and direction(ours.p9999) != direction(ours.value):
        words += f"; our 99.99th percentiles say {direction(ours.p9999)} ({three_digits(ours.p9999)})"
    return words


def _decide(theirs: float, interval: Interval, rule: RuleName) -> Verdict | None:
    """Give the verdict that holds in the whole of an interval; None where there is none.

    What agrees with theirs lies without a gap around theirs, so that two ends tell what is between them.
    """
    ends = [agrees(theirs, end, rule) for end in (interval.low, interval.high)]
    if all(ends):
        return "agrees"
    return None if any(ends) or interval.low <= theirs <= interval.high else "disagrees"


def agrees(theirs: float, ours: float, rule: RuleName = "ratio") -> bool:
    """Tell whether two positive values agree, as if both were known exactly."""
    return max(theirs, ours) / min(theirs, ours) <= _allowed(theirs, ours, rule)


def _allowed(theirs: float, ours: float, rule: RuleName) -> float:
    return AGREEMENT_FACTOR if rule in _DIRECTED and direction(theirs) == direction(ours) else LEVEL_FACTOR


def may_stand_together(samples: Sequence[int]) -> bool:
    """Tell whether maxima of so many samples may be compared; what is no maximum has none."""
    return not samples or max(samples) <= COUNT_FACTOR * min(samples)


def not_judged(theirs: float, ours: Ours | None, because: str) -> Judgement:
    """Say why there is no verdict; a figure of ours may be there all the same."""
    return _judgement(theirs, ours, "not judged", f"not judged, because {because}", because)


def not_judged_for_scaling(theirs: float, ours: Ours, because: str, rule: RuleName) -> Judgement:
    """Say that a scaled scenario is why there is no verdict, and what it would be otherwise."""
    otherwise = judge(theirs, ours, rule)
    if otherwise.verdict == "not judged":
        return not_judged(theirs, ours, f"{because}; {otherwise.because}")
    return not_judged(theirs, ours, because).model_copy(
        update={
            "but_for_scaling": otherwise.verdict,
            "words": f"not judged, because {because}; but for that {otherwise.verdict}: {otherwise.words}",
        }
    )


def _judgement(theirs: float, ours: Ours | None, verdict: Verdict, words: str, because: str | None = None) -> Judgement:
    interval = None if ours is None else ours.interval
    return Judgement(
        theirs=theirs,
        ours=None if ours is None else ours.value,
        ours_low=None if interval is None else interval.low,
        ours_high=None if interval is None else interval.high,
        ours_p9999=None if ours is None else ours.p9999,
        verdict=verdict,
        words=words,
        because=because,
        but_for_scaling=None,
    )


def direction(ratio: float) -> Direction:
    if ratio > LEVEL_FACTOR:
        return "higher"
    return "lower" if ratio < 1 / LEVEL_FACTOR else "no difference"
