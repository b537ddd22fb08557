"""The one rule of what may be used, for the trials of every study: by their records alone, without their tables.

``run``, ``show``, ``ls``, the JUnit file, the page and the progress all ask here. A study adds what it knows of its own
results (``Study.unusable``); it cannot take away what is found here.
"""

from collections.abc import Sequence

from stealtime.campaigns.registry import study_of
from stealtime.store.model import TrialRecord
from stealtime.vocabulary.quantities import approximate_duration

_ENDED_EARLY = ("cancelled", "memory_full", "stopped_at_threshold")
"""Findings of the agent (``crates/probe/src/findings.rs``) about a trial that watched for less long than it was to."""
_REFUSED = ("no_sched_fifo",)
"""The same about one that the machine did not let measure as it was to."""


def reasons_of(records: Sequence[TrialRecord]) -> list[tuple[str, ...]]:
    """Say of each trial why it may not be used, or why it failed; nothing where it may be used.

    Args:
        records: Of one cell, at least one.

    Raises:
        StealtimeError: A result is damaged, or the probe belongs to no study of this version.
    """
    found = [tuple(_reasons(record)) for record in records]
    left = [record for record, reasons in zip(records, found, strict=True) if not reasons]
    own = iter(zip(left, study_of(records[0].cell.probe).unusable(left), strict=True)) if left else iter(())
    return [reasons or tuple(next(own)[1]) for reasons in found]


def is_usable(record: TrialRecord) -> bool:
    return not reasons_of([record])[0]


def too_short(record: TrialRecord) -> str | None:
    """Say how long a trial watched, of how long it was to; None where it watched for as long as was asked for."""
    if (cut := record.cut_short) is not None:
        return f"watched too short: {_part(cut.watched_s, cut.wanted_s)}, because {cut.why}"
    outcome = record.outcome
    ended = None if outcome is None else next((one for one in outcome.findings if one.code in _ENDED_EARLY), None)
    if outcome is None or ended is None:
        return None
    watched_s = max(0, outcome.clock.end.monotonic_raw_ns - outcome.clock.start.monotonic_raw_ns) / 1e9
    return f"watched too short: {_part(watched_s, outcome.request.duration_ns / 1e9)}, because {ended.text}"


def _part(watched_s: float, wanted_s: float) -> str:
    """Give both with as many digits as tell them apart."""
    texts = [(_span(watched_s, digits), _span(wanted_s, digits)) for digits in range(3, 9)]
    watched, wanted = next(((one, other) for one, other in texts if one != other), texts[0])
    return f"{watched} of {wanted}"


def _span(seconds: float, digits: int) -> str:
    return f"{seconds:.{digits}g} s" if seconds < 60 else approximate_duration(seconds)


def not_as_asked(record: TrialRecord) -> list[str]:
    """Say in what a trial that may be used is something else than was asked for."""
    findings = [] if record.outcome is None else record.outcome.findings
    return [f"not measured as asked: {one.text}" for one in findings if one.code in _REFUSED and one.level == "limits"]


def _reasons(record: TrialRecord) -> list[str]:
    # Of a trial that was cut short the failure is told with how long it watched.
    if record.failure is not None and record.cut_short is None:
        return [record.failure.message]
    if record.result is None:
        return ["the trial has no result"]
    findings = [] if record.outcome is None else record.outcome.findings
    return [finding.text for finding in findings if finding.level == "invalidates"]
