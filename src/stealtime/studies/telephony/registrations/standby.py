"""The host that backs a server is lost while phones register: the server runs on, until it has another standby."""

import time
from dataclasses import replace
from pathlib import Path

from stealtime.studies.telephony.loads import RegisterFailoverParameters
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.failover import await_first_answer, told_of_phones
from stealtime.studies.telephony.registrations.load import (
    Load,
    finish_load,
    fresh_names,
    start_load,
    unknown_users,
)
from stealtime.studies.telephony.registrations.losses import lose
from stealtime.studies.telephony.results import RegistrationFailover
from stealtime.vocabulary.errors import StealtimeError

_PROTECTED_AGAIN_WITHIN_S = 60.0
"""Phones register for so long at most until the server is protected again."""


def lose_standby(
    place: Place, wanted: RegisterFailoverParameters, rate_per_s: float, duration_s: float, folder: Path
) -> RegistrationFailover:
    """Let the host that backs a server be lost; phones register until the server has been protected again for a while.

    Args:
        place: The server; it is protected.
        wanted: Of it and its phones.
        rate_per_s: How many register in a second.
        duration_s: How long they do so before the fault, and when the server is protected again. A host that fell
            silent comes back after as long.
        folder: For the files of SIPp.

    Raises:
        NotProtectedError: The server lost its standby before the fault, or the next one after it.
        StealtimeError: It is not protected again in time.
    """
    most_s = 3 * duration_s + _PROTECTED_AGAIN_WITHIN_S
    count = max(2, round(most_s * rate_per_s))
    load = Load(transport=wanted.transport, rate_per_s=rate_per_s, count=count, names=fresh_names())
    active, from_ns = place.await_protected(), time.monotonic_ns()
    sipp = start_load(place, load, folder / "load")
    try:
        await_first_answer(sipp)
        time.sleep(duration_s)
        place.check_protected(active, from_ns)
        loss = lose(place, active, "standby", wanted.fault)
        if wanted.fault == "silent":
            time.sleep(duration_s)
        loss.mend()
        time.sleep(duration_s)
        sipp.begin_no_more()
        registered = finish_load(sipp)
    finally:
        sipp.end()
    told = loss.told(registered.answered_ns.values())
    protected_ns = loss.struck_ns + told["unprotected"].fault_to_protected_ns
    if max(registered.sent_ns.values()) < protected_ns:
        raise StealtimeError(f"no phone registered any more when the server was protected again, after {most_s:g} s")
    lost = unknown_users(place.client, place.address, sorted(registered.answered_ns), folder)
    # On a crowded host the next standby may have taken the server over meanwhile: what was lost then is another loss.
    place.check_protected(active, protected_ns + 1)
    begun = replace(load, count=len(registered.sent_ns))
    return RegistrationFailover(**told, **told_of_phones(begun, registered, loss.struck_ns, lost))
