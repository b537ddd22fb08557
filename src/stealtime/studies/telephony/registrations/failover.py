"""A server's host dies while phones register; then the surviving server is asked for each acknowledged registration."""

import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from stealtime.hosts.guest import Fault
from stealtime.studies.telephony.loads import RegisterFailoverParameters
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.enrolment import some_of
from stealtime.studies.telephony.registrations.load import (
    Load,
    Registered,
    finish_load,
    fresh_names,
    start_load,
    unknown_users,
)
from stealtime.studies.telephony.results import AnswersOverTime, RegistrationFailover
from stealtime.studies.telephony.sipp.program import Sipp
from stealtime.vocabulary.errors import StealtimeError

_STEP_NS = 20_000_000
_SHOWN_BEFORE_NS = 1_000_000_000
_SHOWN_AFTER_NS = 3_000_000_000
LOST_SHOWN = 10
"""Of the users that were lost, as many are named."""
_BEGINS_WITHIN_S = 20.0
_POLL_S = 0.02


def fail_over(
    place: Place, wanted: RegisterFailoverParameters, rate_per_s: float, duration_s: float, folder: Path
) -> RegistrationFailover:
    """Let the host of a server die in the middle of a load.

    Args:
        place: The server; it is protected, or there is another one.
        wanted: Of it and its phones.
        rate_per_s: How many register in a second.
        duration_s: How long they do so before the fault, and as long after it.
        folder: For the files of SIPp.

    Raises:
        NotProtectedError: The server lost its standby before the fault.
        StealtimeError: It does not go on.
    """
    count = wanted.users if wanted.users is not None else max(2, round(2 * duration_s * rate_per_s))
    load = Load(transport=wanted.transport, rate_per_s=rate_per_s, count=count, names=fresh_names())
    active, from_ns = place.await_protected(), time.monotonic_ns()
    sipp = start_load(place, load, folder / "load")
    try:
        await_first_answer(sipp)
        time.sleep(load.duration_s / 2)
        place.check_protected(active, from_ns)
        fault = place.lose_host(wanted.fault)
        registered = finish_load(sipp)
    finally:
        sipp.end()
    acknowledged = sorted(registered.answered_ns)
    lost = unknown_users(place.client, place.address, acknowledged, folder)
    asked = some_of(wanted.registered)
    lost_of_before = unknown_users(place.client, place.address, asked, folder / "before")
    place.revive()
    place.await_protected(frozenset(member.pid for member in active if member.pid is not None))
    found = _result(load, registered, fault, lost)
    return found.model_copy(update={"asked_of_before": len(asked), "lost_of_before": len(lost_of_before)})


def silence_ns(answered_ns: list[int], unanswered_ns: list[int], fault_ns: int) -> int | None:
    """Give the longest time between two answers that follow each other, the second one after the fault.

    None where the last silence has no end, since there is no answer after the fault (a TCP connection that lost its
    state, for one) or none to what was asked later than that: one that was on its way already ends nothing.

    Args:
        answered_ns: When answers came.
        unanswered_ns: When what was never answered was asked.
        fault_ns: When the host died.
    """
    if any(at_ns > max(answered_ns, default=fault_ns) for at_ns in unanswered_ns):
        return None
    gaps = [later - earlier for earlier, later in pairwise(sorted(answered_ns)) if later > fault_ns]
    return max(gaps, default=None)


def over_time(answered_ns: list[int], fault_ns: int) -> AnswersOverTime:
    """Count the answers in steps, from a second before the fault on."""
    first_ns = -_SHOWN_BEFORE_NS
    counts = [0] * ((_SHOWN_BEFORE_NS + _SHOWN_AFTER_NS) // _STEP_NS)
    for at_ns in answered_ns:
        step = (at_ns - fault_ns - first_ns) // _STEP_NS
        if 0 <= step < len(counts):
            counts[step] += 1
    return AnswersOverTime(step_ns=_STEP_NS, first_step_ns=first_ns, answers=counts)


def told_of(fault: Fault, answered_ns: Iterable[int]) -> dict[str, Any]:
    """Give what every result tells of a fault: the host, when it was noticed and mended, and the answers around it.

    Args:
        fault: It.
        answered_ns: When users of the server that was lost were answered, in any order.
    """
    answered = sorted(answered_ns)
    first_ns = next((at_ns for at_ns in answered if at_ns >= fault.running_ns), None)
    return {
        "host": fault.died,
        "fault_to_detection_ns": fault.detected_ns - fault.struck_ns,
        "fault_to_running_ns": fault.running_ns - fault.struck_ns,
        "fault_to_answer_ns": None if first_ns is None else first_ns - fault.struck_ns,
        "clock_error_ns": fault.error_ns,
        "over_time": over_time(answered, fault.struck_ns),
    }


def _result(load: Load, registered: Registered, fault: Fault, lost: list[str]) -> RegistrationFailover:
    answered = sorted(registered.answered_ns.values())
    return RegistrationFailover(
        **told_of(fault, answered),
        rate_per_s=load.rate_per_s,
        users=load.count,
        sent=len(registered.sent_ns),
        acknowledged=len(answered),
        acknowledged_before=sum(at_ns <= fault.struck_ns for at_ns in answered),
        lost=len(lost),
        lost_users=lost[:LOST_SHOWN],
        unanswered=registered.unanswered,
        retransmissions=registered.finished.counts.retransmissions,
        connections_failed=registered.finished.counts.reconnects,
        silence_ns=silence_ns(answered, registered.unanswered_ns, fault.struck_ns),
    )


def await_first_answer(sipp: Sipp) -> None:
    """Wait until a phone is acknowledged.

    Raises:
        StealtimeError: None is in time.
    """
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while not any(message.kind == "answered" for message in sipp.messages()):
        if sipp.process.poll() is not None or time.monotonic() > deadline:
            raise StealtimeError(f"no phone could register before the fault: {sipp.log_tail()}")
        time.sleep(_POLL_S)
