"""Sessions a second: calls that are established and ended at once (RFC 7501: session establishment rate).

The relay is asked for its ports for each of them, as for a call with voice; there is no voice.
"""

from pathlib import Path

from stealtime.studies.telephony.calls.dialogues import CALLERS_PORT, CallSignalling, scenario_path
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.load import first_times, offered_per_s
from stealtime.studies.telephony.registrations.saturation import Attempt
from stealtime.studies.telephony.sipp.program import ANSWERED_WITHIN_S, SippOrder, start_sipp
from stealtime.vocabulary.errors import StealtimeError

_PHONES = 100
"""That are called in turn."""
_ENDLESS = 1_000_000
"""Calls: phones answer until they are ended."""


def attempt_sessions(place: Place, transport: Transport, rate_per_s: float, try_s: float, folder: Path) -> Attempt:
    """Try a rate for a while, for the search of the highest one.

    Args:
        place: Has the server; it answers.
        transport: How callers reach it.
        rate_per_s: Sessions a second.
        try_s: For how long they begin.
        folder: For files.

    Raises:
        StealtimeError: Phones cannot register, or SIPp fails.
    """
    plan = CallPlan(_PHONES, transport)
    order = SippOrder(
        scenario=scenario_path("session_caller"),
        target=place.address,
        transport=transport,
        calls=max(10, round(rate_per_s * try_s)),
        rate_per_s=rate_per_s,
        users=plan.fields,
        limit_s=try_s + ANSWERED_WITHIN_S,
        options=("-p", str(CALLERS_PORT)),
    )
    with CallSignalling(place.client, place.address, plan, folder) as signalling:
        signalling.register("session_phone", answered=_ENDLESS)
        callers = start_sipp(place.client, order, folder / "callers")
        try:
            finished = callers.wait()
        finally:
            callers.end()
    sent = first_times(finished.messages, "sent")
    if not sent:
        raise StealtimeError(f"SIPp began no session: {finished.said}", hint="is its address or a port taken?")
    return Attempt(
        rate_per_s=rate_per_s,
        duration_s=try_s,
        offered_per_s=offered_per_s(sent.values()),
        sent=len(sent),
        # With its BYE: a session that cannot be ended was none.
        acknowledged=finished.counts.successful,
        retransmissions=finished.counts.retransmissions,
    )
