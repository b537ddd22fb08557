"""What a curve says in sentences, for terminal and page."""

from collections.abc import Iterator, Sequence

from stealtime.report import notation
from stealtime.schedulability.document import AllowedDocument, CurveDocument, CurveShare, WeightedDocument
from stealtime.vocabulary.quantities import format_duration

_LONGEST_EXACT = 6
"""Letters of a duration that somebody chose; what was measured or computed has more digits than anybody reads."""


def duration(nanoseconds: int) -> str:
    """Write a duration exactly where that is short, and otherwise with five digits."""
    exact = format_duration(nanoseconds)
    return exact if len(exact) <= _LONGEST_EXACT else notation.duration(nanoseconds, 5).replace(" ", "")


def answer(document: CurveDocument) -> str:
    first, *others = document.weighted
    known = [one for one in others if one.cost is not None]
    if not others:
        return f"There is nothing to compare with {first.condition}: overheads or a supply have to be given."
    if not known or len(known) < len(others):
        named = next(one.condition for one in others if one.cost is None)
        return f"What {named} costs is not judged: it is not known of every set whether it is schedulable."
    costliest = max(known, key=lambda one: one.cost or 0.0)
    if costliest.cost == 0.0:
        return f"It costs nothing that {document.sets} sets of each utilization show."
    return f"{_half_words(first, costliest)} Weighted schedulability falls by {cost_words(costliest)}."


def cost_words(one: WeightedDocument) -> str:
    """Say by how much weighted schedulability is less than under the first condition, with the interval."""
    if one.cost is None or one.cost_low is None or one.cost_high is None:
        return "not judged"
    return f"{one.cost:.3f} ({one.cost_low:.3f} to {one.cost_high:.3f})"


def share_words(one: CurveShare) -> str:
    """Write a share with its interval in percent: ``97.5 (96.3 to 98.3)``."""
    if one.schedulable_share is None or one.low is None or one.high is None:
        return "not judged"
    unjudged = f", {one.not_judged} not judged" if one.not_judged else ""
    return f"{100 * one.schedulable_share:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f}){unjudged}"


def allowed_notes(allowed: Sequence[AllowedDocument]) -> Iterator[str]:
    """Say what a share of misses means, and what was not judged."""
    yield (
        "Shares of what was observed, no bounds: several overheads are charged to a job, each of which exceeds its "
        "percentile now and then, and one gap may make several jobs late, so more jobs may miss than allowed."
    )
    if any(one.gaps_left_out is not None for one in allowed):
        yield (
            "Gaps left out: the longest that were observed, as many as that share of windows as long as the longest "
            "deadline meets. None where the observation is too short to leave one out."
        )
    yield from (f"{one.misses_percent:g} %: {one.because}" for one in allowed if one.because is not None)


def conditions_words(document: CurveDocument) -> str:
    accounting = "" if document.accounting is None else f", overheads charged per {document.accounting}"
    elsewhere = "" if document.interrupts == "here" else ", timer interrupts on another CPU"
    return (
        f"{document.sets} sets of each utilization, the same for all conditions: law {document.law}, periods "
        f"{document.periods}, deadlines {document.deadlines}, seed {document.seed}; one CPU, "
        f"{'EDF' if document.policy == 'edf' else 'fixed priorities'}{accounting}{elsewhere}."
    )


def _half_words(first: WeightedDocument, other: WeightedDocument) -> str:
    if first.half_utilization is None:
        return f"{first.condition}: at no utilization is half of the sets schedulable."
    if other.half_utilization is None:
        return f"With {other.condition}, at no utilization is half of the sets schedulable any more."
    before, after = round(100 * first.half_utilization), round(100 * other.half_utilization)
    words = f"With {other.condition}, half of the sets are schedulable up to a utilization of {after} %"
    if before == after:
        return f"{words}, as without."
    return f"{words} instead of {before} %: that costs {before - after} % of a CPU."
