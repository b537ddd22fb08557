"""What a reader must know of a cell's figures, over all repetitions: too high a load, what was lost, what is unknown.

Pure. A thing is told once, however many repetitions have it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from stealtime.report import notation
from stealtime.report.catalogue.failovers import limits_of_failovers
from stealtime.studies.telephony.calls.recommendation import rule
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Voice
from stealtime.studies.telephony.calls.stage_results import TwoStageCallFailover
from stealtime.studies.telephony.generators.limit import OFFERED_SHARE_MIN
from stealtime.studies.telephony.lengths import VOICE_WITHOUT_STANDBY_S
from stealtime.studies.telephony.results import (
    EstablishmentRate,
    RegistrationFailover,
    Registrations,
    SessionFailover,
    TwoStageFailover,
)

_GUEST_LOST = ("primary", "all-primaries")
"""Victims with whose hosts guests were lost."""
_SENT_LATE = "one packet in a hundred was sent"
"""Each end says so of each trial, with a figure of its own (`crates/witness/src/rtp/report.rs`, `own_jitter`)."""


def limits(results: Sequence[Any]) -> list[str]:
    """Give a sentence for each thing that limits the figures of these results; all are of one probe."""
    told = [
        *(text for one in results if isinstance(one, Registrations) for text in _of_load(one)),
        *(text for one in results if isinstance(one, EstablishmentRate) for text in _of_rate(one)),
        *_of_failovers([one for one in results if isinstance(one, RegistrationFailover | TwoStageFailover)]),
        *_of_state([one for one in results if isinstance(one, RegistrationFailover)]),
        *_of_sessions([one for one in results if isinstance(one, SessionFailover)]),
        *_of_fronts([one for one in results if isinstance(one, TwoStageFailover)]),
        *_of_additions([one for one in results if isinstance(one, TwoStageFailover)]),
        *_of_calls([one for one in results if isinstance(one, Calls | CallFailover)]),
        *_of_weights([one for one in results if isinstance(one, Registrations | Calls)]),
        *_of_calls_failing_over([one for one in results if isinstance(one, CallFailover)]),
        *_of_stage_calls([one for one in results if isinstance(one, TwoStageCallFailover)]),
        *limits_of_failovers(results),
    ]
    return list(dict.fromkeys(told))


def _of_rate(one: EstablishmentRate) -> Iterator[str]:
    rate = f"{one.rate_per_s:.0f} per second"
    if one.unbounded_because is not None:
        yield f"the server bears at least {rate}, and how much more is not judged: {one.unbounded_because}"
    elif not one.is_bounded:
        yield f"no rate was seen to fail: the server may bear more than {rate}"
    failed = [tried for tried in one.attempts if tried.failure is not None and tried.rate_per_s > one.rate_per_s]
    if one.is_bounded and failed:
        # It failed twice, and the last time decided.
        lowest = min(tried.rate_per_s for tried in failed)
        limit = [tried.limit for tried in failed if tried.rate_per_s == lowest][-1]
        if limit is not None:
            yield f"at {lowest:.0f} per second: {limit.sentence}"


def _of_weights(results: Sequence[Registrations | Calls]) -> Iterator[str]:
    for one in results:
        if one.weighed is not None and "QEMU" not in one.weighed:
            yield f"of the host side only {one.weighed} were weighed: version 2 of cgroups cannot part QEMU's threads"


def _of_load(one: Registrations) -> Iterator[str]:
    by = None if one.limit is None else one.limit.by
    if one.refused:
        yield f"the server refused {one.refused} of {one.sent} registrations: what does its log say?"
    if one.unanswered > one.refused and by not in ("generator", "network"):
        unanswered = one.unanswered - one.refused
        yield (
            f"the load is above what the server bears: {unanswered} of {one.sent} registrations were not acknowledged"
        )
    if one.limit is not None and by != "none":
        yield one.limit.sentence
    if one.saturation_per_s is not None and one.rate_per_s > one.saturation_per_s:
        least = "" if one.saturation_unbounded_because is None else "at least "
        yield (
            f"{one.rate_per_s:.0f} per second were asked for, and the unprotected server bears "
            f"{least}{one.saturation_per_s:.0f}"
        )
    yield from _of_share(one)
    if one.offered_per_s < OFFERED_SHARE_MIN * one.rate_per_s and one.limit is None:
        yield f"of {one.rate_per_s:.0f} per second SIPp offered only {one.offered_per_s:.0f}"


def _of_share(one: Registrations | SessionFailover) -> Iterator[str]:
    """Say where the load is a share of what was found to be borne, and more may be."""
    if one.saturation_per_s is not None and one.saturation_unbounded_because is not None:
        yield (
            f"the load is a share of {one.saturation_per_s:.0f} per second, which the unprotected server bears at "
            f"least: {one.saturation_unbounded_because}"
        )


def _of_failovers(results: Sequence[RegistrationFailover | TwoStageFailover]) -> Iterator[str]:
    unheard = [one for one in results if one.fault_to_answer_ns is None]
    has_guest_lost = all(one.victim in _GUEST_LOST for one in results)
    if nobody_left := [one for one in unheard if not one.unanswered]:
        before = "the guest ran again" if has_guest_lost else "the fault"
        yield (
            f"all phones had registered before {before}{_in_times(nobody_left, results)}: how long they "
            "would have heard nothing is not known"
        )
    if silent := [one for one in unheard if one.unanswered]:
        unanswered, sent = sum(one.unanswered for one in silent), sum(one.sent for one in silent)
        yield (
            f"after the failover no phone was answered any more{_in_times(silent, results)} "
            f"({unanswered} of {sent} were not)"
        )
    if losing := [one for one in results if one.lost]:
        lost, acknowledged = sum(one.lost for one in losing), sum(one.acknowledged for one in results)
        with_host = " with their host" if has_guest_lost else ""
        yield (
            f"{lost} of {acknowledged} acknowledged registrations were lost{with_host}"
            f"{_in_times(losing, results)}, such as that of {losing[0].lost_users[0]}"
        )


def _of_state(results: Sequence[RegistrationFailover]) -> Iterator[str]:
    """Tell of users who were registered before the load."""
    if losing := [one for one in results if one.lost_of_before]:
        lost, asked = sum(one.lost_of_before for one in losing), sum(one.asked_of_before for one in results)
        yield (
            f"{lost} of {asked} users who were registered before the load, and asked for, were lost with their host"
            f"{_in_times(losing, results)}"
        )


def _of_fronts(results: Sequence[TwoStageFailover]) -> Iterator[str]:
    fronts = [one.front for one in results if one.front is not None]
    if unturned := [one for one in fronts if not one.turned]:
        phones = sum(one.phones for one in unturned)
        yield (
            f"none of the {phones} phones of the front had to turn to the other one{_in_times(unturned, fronts)}: how "
            "long that takes is not known"
        )
    if unanswered := [one for one in results if one.front is not None and one.unanswered]:
        yield (
            f"{sum(one.unanswered for one in unanswered)} of {sum(one.sent for one in unanswered)} phones were "
            f"acknowledged by no front{_in_times(unanswered, fronts)}"
        )
    for one in results:
        if one.front is not None and one.front.offered_per_s < OFFERED_SHARE_MIN * one.rate_per_s:
            yield f"of {one.rate_per_s:.0f} per second phones offered only {one.front.offered_per_s:.0f}"


def _of_sessions(results: Sequence[SessionFailover]) -> Iterator[str]:
    yield from (text for one in results for text in _of_share(one))
    begun = sum(one.begun for one in results)
    if half_open := [one for one in results if one.half_open]:
        yield (
            f"{sum(one.half_open for one in half_open)} of {begun} sessions are half open"
            f"{_in_times(half_open, results)}: the phone believes that it talks, and its caller does not"
        )
    if unjudged := [one for one in results if one.leaked_ports is None]:
        yield (
            f"which ports the relay leaves open is not judged{_in_times(unjudged, results)}: ports that nobody has do "
            "not always refuse what is sent there"
        )
    if leaking := [one for one in results if one.leaked_ports]:
        leaked, ports = sum(one.leaked_ports or 0 for one in leaking), sum(one.relay_ports for one in results)
        yield (
            f"{leaked} of {ports} ports of the relay are still open{_in_times(leaking, results)}, though all sessions "
            "are over"
        )


def _of_additions(results: Sequence[TwoStageFailover]) -> Iterator[str]:
    if losing := [one for one in results if one.added.lost]:
        lost, acknowledged = sum(one.added.lost for one in losing), sum(one.added.acknowledged for one in results)
        yield (
            f"{lost} of {acknowledged} acknowledged users could not be found when a primary was added, "
            f"such as {losing[0].added.lost_users[0]}"
        )


def _of_voice(voices: Sequence[Voice]) -> Iterator[str]:
    yield from (text for one in voices for text in one.limits if not text.startswith(_SENT_LATE))
    if late := [one for one in voices if any(text.startswith(_SENT_LATE) for text in one.limits)]:
        most_ns = max(one.sender_late_p99_ns or 0 for one in late)
        yield f"{_SENT_LATE} up to {notation.duration(most_ns, 3)} too late or later"


def _of_stage_calls(results: Sequence[TwoStageCallFailover]) -> Iterator[str]:
    yield from _of_voice([one.voice for one in results])
    for died, whose in ((True, "of primaries whose hosts died"), (False, "of the other primaries")):
        each = [one for result in results for one in (result.died if died else result.others)]
        calls, kept = sum(one.calls for one in each), sum(one.kept for one in each)
        if kept < calls:
            yield f"{calls - kept} of {calls} calls {whose} were not kept: their BYE was not answered"
    if idle := [one for one in results if not all(each.calls for each in one.calls)]:
        yield f"a primary had no call{_in_times(idle, results)}: have more streams, or users of other names"
    if losing := [one for one in results if one.registrations.lost]:
        lost = sum(one.registrations.lost for one in losing)
        acknowledged = sum(one.registrations.acknowledged for one in results)
        yield (
            f"{lost} of {acknowledged} registrations that were acknowledged meanwhile were lost"
            f"{_in_times(losing, results)}"
        )
    if unknown := [one for one in results if one.gap_ns is None]:
        yield (
            f"the longest silence was not at the fault{_in_times(unknown, results)}: "
            "the gap of the voice is not known there"
        )


def _of_calls(results: Sequence[Calls | CallFailover]) -> Iterator[str]:
    yield from _of_voice([one.voice for one in results])
    calls = [one for one in results if isinstance(one, Calls)]
    lost, sent = sum(one.voice.lost for one in calls), sum(one.voice.sent for one in calls)
    if not rule().is_borne(lost, sent):
        yield (
            f"the load is above what the server bears: {lost:,} of {sent:,} packets of voice were lost, "
            f"{notation.percent(rule().voice_lost_share_max)} are the most"
        )
    dialogues = [one.dialogues for one in results]
    answered, kept = sum(one.answered for one in dialogues), sum(one.kept for one in dialogues)
    if kept < answered:
        yield f"{answered - kept} of {answered} calls were not kept: their BYE was not answered"
    if anew := sum(one.ended_anew for one in dialogues):
        yield f"{anew} of {answered} calls could not be ended over their connection, and were over a new one"


def _of_calls_failing_over(results: Sequence[CallFailover]) -> Iterator[str]:
    losing = [one for one in results if one.registrations.lost]
    if losing:
        lost = sum(one.registrations.lost for one in losing)
        acknowledged = sum(one.registrations.acknowledged for one in results)
        yield (
            f"{lost} of {acknowledged} registrations that were acknowledged meanwhile were lost with their host"
            f"{_in_times(losing, results)}"
        )
    # Voice does not pass the host of signalling, where that is another one.
    if unknown := [one for one in results if one.gap_ns is None and one.victim in {"primary", "media"}]:
        yield (
            f"the longest silence was not at the fault{_in_times(unknown, results)}: "
            "the gap of the voice is not known there"
        )
    without = [one.unprotected for one in results if one.unprotected is not None]
    if ended := [one for one in without if one.back_to_protected_ns > VOICE_WITHOUT_STANDBY_S * 1e9]:
        yield (
            f"all had been said before the server was protected again{_in_times(ended, results)}: what its next "
            "standby's first copy does to voice is known in part only"
        )


def _in_times(some: Sequence[object], results: Sequence[object]) -> str:
    """Say in how many failovers it was, where there was more than one."""
    return "" if len(results) == 1 else f" in {len(some)} of {len(results)} failovers"
