"""Trials that end before their time: what they measured stays, and says how long they watched and what ended them."""

from stealtime.store.model import CutShort, TrialRecord
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.quantities import approximate_duration
from stealtime.wire.message import TrialOutcome

CUT_SHORT = "cut_short"
"""The code of the finding."""
_CANCELLED = "cancelled"
"""The agent's own finding about a trial that it was asked to end."""
INTERRUPTED = "the run was interrupted"


def marked(record: TrialRecord, why: str) -> TrialRecord:
    """Mark a trial as cut short, if it is: one that was asked to end when its time was over is whole.

    Args:
        record: With an outcome, which says how far the agent came.
        why: What ended it: a part of a sentence.
    """
    outcome = record.outcome
    if outcome is None:
        return record
    others = [one for one in outcome.findings if one.code not in (_CANCELLED, CUT_SHORT)]
    if _is_whole(outcome):
        return record.model_copy(update={"outcome": outcome.model_copy(update={"findings": others})})
    cut = CutShort(watched_s=watched_s(outcome), wanted_s=outcome.request.duration_ns / 1e9, why=why)
    findings = [*others, _finding(cut)]
    return record.model_copy(
        update={
            "state": "cut_short",
            "outcome": outcome.model_copy(update={"findings": findings}),
            "cut_short": cut,
        }
    )


def is_empty(record: TrialRecord) -> bool:
    """Whether nothing was measured that would be worth keeping."""
    return record.outcome is None or record.outcome.counters.get("recorded") == 0


def watched_s(outcome: TrialOutcome) -> float:
    """Give how long a trial measured; of one without samples, how long it took."""
    counted_ns = outcome.counters.get("watched_ns")
    if counted_ns is None:
        counted_ns = outcome.clock.end.monotonic_raw_ns - outcome.clock.start.monotonic_raw_ns
    return counted_ns / 1e9


def _is_whole(outcome: TrialOutcome) -> bool:
    request = outcome.request
    if request.max_samples is not None and outcome.counters.get("recorded", 0) >= request.max_samples:
        return True
    return "watched_ns" in outcome.counters and outcome.counters["watched_ns"] >= request.duration_ns


def _finding(cut: CutShort) -> Finding:
    return Finding(
        code=CUT_SHORT,
        level="invalidates",
        text=f"it watched {approximate_duration(cut.watched_s)} of {approximate_duration(cut.wanted_s)}: {cut.why}",
        hint="measure it as a whole with `stealtime run --resume`",
    )
