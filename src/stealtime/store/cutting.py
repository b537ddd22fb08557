"""Trials that end before their time: what they measured stays, and says how long they watched and what ended them."""

from stealtime.store.model import CutShort, TrialRecord
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.quantities import approximate_duration
from stealtime.wire.message import TrialOutcome

CUT_SHORT = "cut_short"
"""The code of the finding."""
_CANCELLED = "cancelled"
_ENDED_EARLY = {_CANCELLED, "unfinished"}
"""The agent's own findings about a trial that it was asked to end before its time, or its work, was done."""
INTERRUPTED = "the run was interrupted"


def marked(record: TrialRecord, why: str) -> TrialRecord:
    """Mark a trial as cut short.

    Args:
        record: With an outcome, which says how far the agent came.
        why: What ended it: a part of a sentence.
    """
    outcome = record.outcome
    if outcome is None:
        return record
    cut = CutShort(watched_s=watched_s(outcome), wanted_s=outcome.request.duration_ns / 1e9, why=why)
    findings = [*_others(outcome), _finding(cut)]
    changed = outcome.model_copy(update={"findings": findings})
    return record.model_copy(update={"state": "cut_short", "outcome": changed, "cut_short": cut})


def marked_if_cancelled(record: TrialRecord, why: str) -> TrialRecord:
    """Mark a trial as cut short that was asked to end; one whose time was over by then is whole."""
    findings = () if record.outcome is None else record.outcome.findings
    return marked(record, why) if any(one.code in _ENDED_EARLY for one in findings) else record


def is_empty(record: TrialRecord) -> bool:
    return record.outcome is None or record.outcome.counters.get("recorded") == 0


def watched_s(outcome: TrialOutcome) -> float:
    """Give how long a trial measured; of one without samples, how long it took."""
    counted_ns = outcome.counters.get("watched_ns")
    if counted_ns is None:
        counted_ns = outcome.clock.end.monotonic_raw_ns - outcome.clock.start.monotonic_raw_ns
    return counted_ns / 1e9


def _others(outcome: TrialOutcome) -> list[Finding]:
    return [one for one in outcome.findings if one.code not in (_CANCELLED, CUT_SHORT)]


def _finding(cut: CutShort) -> Finding:
    return Finding(
        code=CUT_SHORT,
        level="invalidates",
        text=f"it watched {approximate_duration(cut.watched_s)} of {approximate_duration(cut.wanted_s)}: {cut.why}",
        hint="measure it as a whole with `stealtime run --resume`",
    )
