"""The trial of the probe ``session-failover``: a host of the server is lost while sessions are set up and ended."""

import time
from pathlib import Path

from stealtime.studies.telephony.calls.dialogues import GIVES_UP_AFTER_S, CallSignalling, callers_port, scenario_path
from stealtime.studies.telephony.calls.outcomes import sessions_of
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relay_ports import open_ports
from stealtime.studies.telephony.loads import SessionFailoverParameters
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.failover import await_first_answer, silence_ns
from stealtime.studies.telephony.registrations.losses import begin_at_home, lose
from stealtime.studies.telephony.results import SessionFailover
from stealtime.studies.telephony.sipp.program import SippOrder, start_sipp
from stealtime.vocabulary.errors import StealtimeError

_PHONES = 100
"""That are called in turn."""
_ENDLESS = 1_000_000
"""Calls: phones answer until they are ended."""
_AFTER_S = 1.0
"""From the last answer to a caller until a phone's log holds what led to it."""


def session_failover(
    place: Place,
    wanted: SessionFailoverParameters,
    rate_per_s: float,
    saturation_per_s: float | None,
    before_s: float,
    folder: Path,
) -> SessionFailover:
    """Let a host of a server be lost while sessions are established and ended.

    Args:
        place: The server; it is protected, or there is another one.
        wanted: Of it and its callers.
        rate_per_s: How many sessions begin in a second.
        saturation_per_s: What the unprotected server bears, where the rate is a share of it.
        before_s: How long sessions begin before the fault, and as long after it.
        folder: For the files of SIPp.

    Raises:
        NotProtectedError: The server lost its standby before the fault.
        StealtimeError: It does not go on, or SIPp fails.
    """
    plan = CallPlan(_PHONES, wanted.transport)
    order = SippOrder(
        scenario=scenario_path("accounted_caller"),
        target=place.address,
        transport=wanted.transport,
        calls=max(2, round(2 * before_s * rate_per_s)),
        rate_per_s=rate_per_s,
        users=plan.fields,
        # An INVITE that nobody answers, and a BYE.
        limit_s=2 * before_s + 2 * GIVES_UP_AFTER_S,
        answered_within_s=GIVES_UP_AFTER_S,
        lost_stay_open=True,
        # A caller that gave up would else hang up by a BYE of SIPp's own, and a repeated answer end its call.
        options=("-p", str(callers_port(place.client, wanted.transport)), "-default_behaviors", "none"),
    )
    begin_at_home(place)
    active, from_ns = place.await_protected(), time.monotonic_ns()
    with CallSignalling(place.client, place.address, plan, folder) as signalling:
        signalling.register("accounted_phone", answered=_ENDLESS)
        callers = start_sipp(place.client, order, folder / "callers")
        try:
            await_first_answer(callers)
            time.sleep(before_s)
            place.check_protected(active, from_ns)
            loss = lose(place, active, wanted.victim, wanted.fault)
            finished = callers.wait()
        finally:
            callers.end()
        time.sleep(_AFTER_S)
        sessions = sessions_of(finished.messages, signalling.phones_messages())
    if not sessions.sent_ns:
        raise StealtimeError(f"SIPp began no session: {finished.said}", hint="is its address or a port taken?")
    leaked = open_ports(place.client, sessions.relays)
    # As whole as it was before, for the next trial.
    loss.mend()
    answered = sorted(sessions.answered_ns.values())
    return SessionFailover(
        **loss.told(answered),
        rate_per_s=rate_per_s,
        saturation_per_s=saturation_per_s,
        begun=len(sessions.sent_ns),
        **sessions.counts(),
        relay_ports=len(sessions.relays),
        leaked_ports=None if leaked is None else len(leaked),
        retransmissions=finished.counts.retransmissions,
        connections_lost=callers.lost_connections(),
        silence_ns=silence_ns(answered, sessions.unanswered_ns, loss.struck_ns),
    )
