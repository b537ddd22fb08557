"""The trials of the probes ``call`` and ``call-failover``."""

import time
from pathlib import Path

from stealtime.hosts.guest import Fault
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Moment, RegistrationsMeanwhile
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.steady import steady
from stealtime.studies.telephony.registrations.load import (
    Load,
    Registered,
    finish_load,
    fresh_names,
    start_load,
    unknown_users,
)
from stealtime.studies.telephony.sipp.program import Sipp

_AFTER_S = 3.0
"""How long both ends speak on after as much time as before the fault: a failover takes some tenths of a second."""
_REGISTERED_PER_S = 20.0
"""While the host dies: enough to see when signalling is answered again, and too little to be a load."""


def call(place: Place, plan: CallPlan, voice_s: float, folder: Path) -> Calls:
    """Have all calls up at once, and both ends of each speak.

    Raises:
        StealtimeError: It cannot be had; ``NotProtectedError`` where it may be tried again.
    """
    with steady(place):
        measured = make_calls(place, plan, voice_s, folder)
    return Calls(
        dialogues=measured.dialogues,
        voice=measured.voice,
        server_cpu_ns=measured.used.server_ns,
        host_cpu_ns=measured.used.host_ns,
        elapsed_ns=measured.elapsed_ns,
    )


def call_failover(place: Place, plan: CallPlan, before_s: float, folder: Path) -> CallFailover:
    """Have the host die in the middle of calls, while some phones register.

    Raises:
        StealtimeError: As ``call``.
    """
    voice_s = 2 * before_s + _AFTER_S
    faults: list[Fault] = []
    registering: list[Sipp] = []
    load = Load(
        transport="udp",
        rate_per_s=_REGISTERED_PER_S,
        count=round(_REGISTERED_PER_S * voice_s),
        names=fresh_names(),
    )

    def fault() -> None:
        registering.append(start_load(place, load, folder / "registrations"))
        time.sleep(before_s)
        faults.append(place.kill_host())

    try:
        measured = make_calls(place, plan, voice_s, folder, meanwhile=fault)
        registered = finish_load(registering[0])
    finally:
        for sipp in registering:
            sipp.end()
    lost = unknown_users(place.client, place.address, sorted(registered.answered_ns), folder)
    # As whole as it was before, for the next trial.
    place.await_protected()
    return CallFailover(
        dialogues=measured.dialogues,
        voice=measured.voice,
        registrations=RegistrationsMeanwhile(
            sent=len(registered.sent_ns), acknowledged=len(registered.answered_ns), lost=len(lost)
        ),
        fault_ns=faults[0].struck_ns,
        running_ns=faults[0].running_ns,
        moments=_moments(faults[0], registered, is_replicated=place.mode == "replicated"),
        clock_error_ns=faults[0].error_ns,
    )


def _moments(fault: Fault, registered: Registered, *, is_replicated: bool) -> list[Moment]:
    """Put what happened in its order; what callers and phones heard is told by the voice."""
    taken = (
        [Moment(what="the other server has the address", at_ns=fault.running_ns)]
        if is_replicated
        else [
            Moment(what="the standby has won the register", at_ns=fault.detected_ns),
            Moment(what="the guest runs again", at_ns=fault.running_ns),
        ]
    )
    found = [Moment(what="the host is killed", at_ns=fault.struck_ns), *taken]
    answers = sorted(registered.answered_ns.values())
    before = [at_ns for at_ns in answers if at_ns < fault.struck_ns]
    after = [at_ns for at_ns in answers if at_ns >= fault.struck_ns]
    if before:
        found.append(Moment(what="last registration answered before", at_ns=before[-1]))
    if after:
        found.append(Moment(what="first registration answered", at_ns=after[0]))
    return sorted(found, key=lambda one: one.at_ns)
