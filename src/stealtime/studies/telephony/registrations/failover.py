"""A server's host dies while phones register; then the surviving server is asked for each acknowledged registration."""

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import psutil

from stealtime.hosts.guest import Fault
from stealtime.protect.status import MemberStatus
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
    make_whole(place, active)
    return RegistrationFailover(
        **told_of(fault, registered.answered_ns.values()),
        **told_of_phones(load, registered, fault.struck_ns, lost),
        asked_of_before=len(asked),
        lost_of_before=len(lost_of_before),
    )


def make_whole(place: Place, lost: Sequence[MemberStatus]) -> None:
    """Have a server whose members were lost as protected as it was before, for the next trial.

    Raises:
        StealtimeError: It does not come that far.
    """
    place.revive()
    place.await_protected(frozenset(member.pid for member in lost if member.pid is not None))


def silence_ns(answered_ns: Sequence[int], unanswered_ns: Sequence[int], fault_ns: int) -> int | None:
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


def longest_gap_ns(answered_ns: Sequence[int], until_ns: int) -> int | None:
    """Give the longest time between two answers that follow each other, both before a moment."""
    times = sorted(at_ns for at_ns in answered_ns if at_ns <= until_ns)
    return max((later - earlier for earlier, later in pairwise(times)), default=None)


def longest_registration_ns(registered: Registered, since_ns: int) -> int | None:
    """Give the longest registration that was acknowledged after a moment, from the first copy of its request on."""
    sent = registered.sent_ns
    times = (at_ns - sent[user] for user, at_ns in registered.answered_ns.items() if at_ns > since_ns)
    return max(times, default=None)


def first_answer_ns(answered_ns: Iterable[int], from_ns: int, struck_ns: int) -> int | None:
    """Give how long after a fault the first answer came that came from a moment on; None: there was none."""
    return min((at_ns - struck_ns for at_ns in answered_ns if at_ns >= from_ns), default=None)


def over_time(answered_ns: Sequence[int], fault_ns: int) -> AnswersOverTime:
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
    return {
        "host": fault.died,
        "fault_to_detection_ns": fault.detected_ns - fault.struck_ns,
        "fault_to_running_ns": fault.running_ns - fault.struck_ns,
        "fault_to_answer_ns": first_answer_ns(answered, fault.running_ns, fault.struck_ns),
        "clock_error_ns": fault.error_ns,
        "over_time": over_time(answered, fault.struck_ns),
    }


def told_of_phones(load: Load, registered: Registered, struck_ns: int, lost: Sequence[str]) -> dict[str, Any]:
    """Give what a result tells of the phones of one server, whichever of its hosts was lost.

    Args:
        load: The registrations that were to come.
        registered: What came of them.
        struck_ns: When the host was lost.
        lost: Users that were acknowledged and are not known any more.
    """
    answered = sorted(registered.answered_ns.values())
    return {
        "rate_per_s": load.rate_per_s,
        "users": load.count,
        "sent": len(registered.sent_ns),
        "acknowledged": len(answered),
        "acknowledged_before": sum(at_ns <= struck_ns for at_ns in answered),
        "lost": len(lost),
        "lost_users": list(lost[:LOST_SHOWN]),
        "unanswered": registered.unanswered,
        "retransmissions": registered.finished.counts.retransmissions,
        "connections_failed": registered.finished.counts.reconnects,
        "silence_ns": silence_ns(answered, registered.unanswered_ns, struck_ns),
        "silence_before_ns": longest_gap_ns(answered, struck_ns),
        "longest_ns": longest_registration_ns(registered, struck_ns),
    }


class Registering(Protocol):
    """Phones that register, or callers that call, in a process."""

    @property
    def process(self) -> psutil.Popen: ...

    def has_answer(self) -> bool:
        """Tell whether one of them was answered."""

    def log_tail(self) -> str: ...


def await_first_answer(phones: Registering) -> None:
    """Wait until a phone is acknowledged.

    Raises:
        StealtimeError: None is in time.
    """
    deadline = time.monotonic() + _BEGINS_WITHIN_S
    while not phones.has_answer():
        if phones.process.poll() is not None or time.monotonic() > deadline:
            raise StealtimeError(f"no phone could register before the fault: {phones.log_tail()}")
        time.sleep(_POLL_S)
