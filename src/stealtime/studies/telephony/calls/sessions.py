"""Sessions a second: calls that are established and ended at once (RFC 7501: session establishment rate).

The relay is asked for its ports for each of them, as for a call with voice; there is no voice.
"""

from collections.abc import Sequence
from pathlib import Path

from stealtime.studies.telephony.calls.dialogues import CALLERS_PORT, CallSignalling, scenario_path
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.generators.evidence import Exchange, Offering
from stealtime.studies.telephony.generators.offering import offer
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.load import first_times, offered_per_s
from stealtime.studies.telephony.registrations.saturation import Attempt
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.studies.telephony.sipp.program import ANSWERED_WITHIN_S, SippOrder
from stealtime.vocabulary.errors import StealtimeError

_PHONES = 100
"""That are called in turn."""
_ENDLESS = 1_000_000
"""Calls: phones answer until they are ended."""


def attempt_sessions(
    place: Place, transport: Transport, rate_per_s: float, try_s: float, folder: Path, generators: int = 1
) -> Attempt:
    """Try a rate for a while, for the search of the highest one.

    Args:
        place: Has the server; it answers.
        transport: How callers reach it.
        rate_per_s: Sessions a second.
        try_s: For how long they begin.
        folder: For files.
        generators: How many SIPps begin them together; one more has all the phones.

    Raises:
        StealtimeError: Phones cannot register, or SIPp fails.
    """
    plan = CallPlan(_PHONES, transport)
    calls = max(10, round(rate_per_s * try_s))
    orders = [
        SippOrder(
            scenario=scenario_path("session_caller"),
            target=place.address,
            transport=transport,
            calls=own,
            rate_per_s=rate_per_s * own / calls,
            users=plan.fields,
            limit_s=try_s + ANSWERED_WITHIN_S,
            options=("-p", str(CALLERS_PORT + number)),
        )
        for number, own in enumerate(len(range(first, calls, generators)) for first in range(generators))
    ]
    with CallSignalling(place.client, place.address, plan, folder) as signalling:
        signalling.register("session_phone", answered=_ENDLESS)
        offered = offer(place, orders, folder)
        called = signalling.phones_use()
    messages = offered.numbered
    sent = first_times(messages, "sent")
    if not sent:
        raise StealtimeError(f"SIPp began no session: {offered.said}", hint="is its address or a port taken?")
    offering = Offering(
        transport=transport,
        rate_per_s=rate_per_s,
        offered_per_s=offered_per_s(sent.values()),
        retransmissions=offered.counts.retransmissions,
        sends=offered.sends,
        exchanges=_exchanges(messages),
    )
    return Attempt(
        rate_per_s=rate_per_s,
        duration_s=try_s,
        offered_per_s=offering.offered_per_s,
        sent=len(sent),
        # With its BYE: a session that cannot be ended was none.
        acknowledged=offered.counts.successful,
        retransmissions=offering.retransmissions,
        limit=offered.limit_of(offering, [called]),
    )


def _exchanges(messages: Sequence[LoggedMessage]) -> list[Exchange]:
    """Give what callers said, of their log: the INVITE of each, and the BYE of those that were answered."""
    sent, answered, ended = (first_times(messages, kind) for kind in ("sent", "answered", "ended"))
    return [
        *(Exchange(at_ns, answered.get(call), may_wait=True) for call, at_ns in sent.items()),
        *(Exchange(at_ns, ended.get(call)) for call, at_ns in answered.items()),
    ]
