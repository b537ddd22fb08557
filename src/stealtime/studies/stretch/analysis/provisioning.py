"""Whether a host was over-committed while the work was done: the rules of ``stealtime advise`` on recorded counters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from stealtime.capacity.judgement import Evidence, Judgement, judge
from stealtime.capacity.recorder import read_rows
from stealtime.capacity.recording import RecordedUse, Row, uses_of, why_ended
from stealtime.capacity.rules import load_rules
from stealtime.capacity.terminal import describe
from stealtime.lab.platforms.traits import traits_of
from stealtime.studies.stretch.analysis.model import Provisioning
from stealtime.studies.stretch.companion import MACHINE
from stealtime.studies.stretch.results import HOST_COUNTERS

if TYPE_CHECKING:
    from stealtime.store.run import Trial

HOST = "host"
_NOT_JUDGED = "not judged"


def rows_of(trial: "Trial") -> list[Row] | None:
    """Read the host's counters beside a trial; None where there are none, or they cannot be read."""
    result = trial.record.result
    if result is None or HOST_COUNTERS not in result.tables:
        return None
    try:
        return read_rows(trial.table(HOST_COUNTERS))
    except (pa.ArrowException, OSError):
        return None  # the page and the exit code tell of damaged tables


def provisioning_of(trials: Sequence["Trial"]) -> list[Provisioning]:
    """Judge the host, and the machine under test where it is a guest, by all valid repetitions of a cell together.

    Args:
        trials: The valid ones.
    """
    recordings = [rows for one in trials if (rows := rows_of(one)) is not None]
    if not recordings:
        return []
    record = trials[0].record
    is_guest = traits_of(record.cell.platform).is_guest
    if traits_of(record.cell.platform).is_remote:
        return [_unjudged(HOST, "its host is another one than this", 0)]
    return judged(recordings, is_guest=is_guest)


def judged(recordings: Sequence[Sequence[Row]], *, is_guest: bool) -> list[Provisioning]:
    """Judge recordings of the same cell.

    Args:
        recordings: Of each repetition.
        is_guest: Whether there is a guest of the name ``machine`` in them.
    """
    subjects = [HOST, MACHINE] if is_guest else [HOST]
    uses = [one.use for recording in uses_of(recordings) for one in recording]
    if not uses:
        ended = next((why for rows in recordings if (why := why_ended(rows)) is not None), None)
        because = ended or "no repetition lasted for a whole second, which is the shortest interval"
        return [_unjudged(subject, because, 0) for subject in subjects]
    host, guests = judge(uses, load_rules())
    found = {HOST: host} | {one.subject: one for one in guests if one.subject == MACHINE}
    missing = "the machine was not found among the guests of the host"
    return [
        _told(subject, found[subject]) if subject in found else _unjudged(subject, missing, len(uses))
        for subject in subjects
    ]


def recorded_uses(trials: Sequence["Trial"]) -> list[list[RecordedUse]]:
    """Give what was recorded beside each trial, none where there is no table."""
    return uses_of([rows_of(one) or [] for one in trials])


def _told(subject: str, one: Judgement) -> Provisioning:
    outcome = one.outcome
    if outcome is not None:
        evidence: Sequence[Evidence] = outcome.evidence
    else:
        evidence = _deciding(one) if one.verdict != _NOT_JUDGED else ()
    return Provisioning(
        subject=subject,
        verdict=one.verdict,
        samples=one.samples,
        rule=None if outcome is None else outcome.rule.id,
        because=one.because,
        evidence=[describe(each, None if outcome is None else outcome.of_guest) for each in evidence],
    )


def _deciding(one: Judgement) -> list[Evidence]:
    """Give each figure once, by which rules of other verdicts do not hold."""
    decided: dict[str, Evidence] = {}
    for outcome in one.outcomes:
        for evidence in outcome.evidence:
            if evidence.holds is False:
                decided.setdefault(evidence.figure, evidence)
    return list(decided.values())


def _unjudged(subject: str, because: str, samples: int) -> Provisioning:
    return Provisioning(subject=subject, verdict=_NOT_JUDGED, samples=samples, rule=None, because=because, evidence=[])
