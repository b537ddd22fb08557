"""The trials of the probes ``call`` and ``call-failover``."""

import time
from collections.abc import Sequence
from pathlib import Path

from stealtime.hosts.guest import Fault
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Moment, RegistrationsMeanwhile
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.steady import steady
from stealtime.studies.telephony.registrations.failover import longest_gap_ns, silence_ns
from stealtime.studies.telephony.registrations.load import (
    Load,
    Registered,
    finish_load,
    fresh_names,
    start_load,
    unknown_users,
)
from stealtime.studies.telephony.registrations.losses import begin_at_home, lose_hosts
from stealtime.studies.telephony.sipp.program import Sipp

_WON, _RUNS = "the standby has won the register", "the guest runs again"
_TAKEN = {
    "killed": ("the host is killed", _WON, _RUNS),
    "silent": ("the host falls silent", _WON, _RUNS),
    "planned": ("its operator moves the guest", _WON, _RUNS),
    # Both moments are one there.
    "replicated": ("the host is killed", "", "the other server has the address"),
}
"""What happens when the host is lost, when that is decided, and when the server is there again."""
AFTER_S = 3.0
"""How long both ends speak on after as much time as before the fault: a failover takes some tenths of a second."""
REGISTERED_PER_S = 20.0
"""While the host dies: enough to see when signalling is answered again, and too little to be a load."""


def call(place: Place, plan: CallPlan, voice_s: float, folder: Path) -> Calls:
    """Have all calls up at once, and both ends of each speak.

    Raises:
        StealtimeError: It cannot be had; ``NotProtectedError`` where it may be tried again.
    """
    begin_at_home(place)
    with steady(place):
        measured = make_calls(place, plan, voice_s, folder)
    return Calls(
        dialogues=measured.dialogues,
        voice=measured.voice,
        server_cpu_ns=measured.used.server_ns,
        host_cpu_ns=measured.used.host_ns,
        elapsed_ns=measured.elapsed_ns,
        checkpoints=measured.checkpoints,
        hosts=measured.hosts,
    )


def call_failover(
    place: Place, plan: CallPlan, before_s: float, folder: Path, wanted: CallFailoverParameters
) -> CallFailover:
    """Have a host be lost in the middle of calls, while some phones register.

    Args:
        place: The server; it is protected, or there is another one.
        plan: Of the calls.
        before_s: How long both ends speak before the fault.
        folder: For files.
        wanted: Which host is lost, and how.

    Raises:
        StealtimeError: As ``call``.
    """
    voice_s = 2 * before_s + AFTER_S
    faults: list[Fault] = []
    registering: list[Sipp] = []
    load = Load(
        transport="udp",
        rate_per_s=REGISTERED_PER_S,
        count=round(REGISTERED_PER_S * voice_s),
        names=fresh_names(),
    )

    def fault() -> None:
        registering.append(start_load(place, load, folder / "registrations"))
        time.sleep(before_s)
        faults.append(lose_hosts(place, wanted.victim, wanted.fault))

    begin_at_home(place)
    try:
        measured = make_calls(place, plan, voice_s, folder, meanwhile=fault)
        registered = finish_load(registering[0])
    finally:
        for sipp in registering:
            sipp.end()
    lost = unknown_users(place.client, place.address, sorted(registered.answered_ns), folder)
    # As whole as it was before, for the next trial.
    place.revive()
    place.await_protected()
    answered_ns = list(registered.answered_ns.values())
    return CallFailover(
        dialogues=measured.dialogues,
        voice=measured.voice,
        registrations=RegistrationsMeanwhile(
            sent=len(registered.sent_ns),
            acknowledged=len(registered.answered_ns),
            lost=len(lost),
            silence_ns=silence_ns(answered_ns, registered.unanswered_ns, faults[0].struck_ns),
            silence_before_ns=longest_gap_ns(answered_ns, faults[0].struck_ns),
        ),
        victim=wanted.victim,
        fault_ns=faults[0].struck_ns,
        running_ns=faults[0].running_ns,
        moments=_moments(faults[0], registered, _TAKEN["replicated" if place.mode == "replicated" else wanted.fault]),
        clock_error_ns=faults[0].error_ns,
    )


def _moments(fault: Fault, registered: Registered, words: Sequence[str]) -> list[Moment]:
    """Put what happened in its order; what callers and phones heard is told by the voice."""
    times_ns = (fault.struck_ns, fault.detected_ns, fault.running_ns)
    found = [Moment(what=what, at_ns=at_ns) for what, at_ns in zip(words, times_ns, strict=True) if what]
    answers = sorted(registered.answered_ns.values())
    before = [at_ns for at_ns in answers if at_ns < fault.struck_ns]
    after = [at_ns for at_ns in answers if at_ns >= fault.struck_ns]
    if before:
        found.append(Moment(what="last registration answered before", at_ns=before[-1]))
    if after:
        found.append(Moment(what="first registration answered", at_ns=after[0]))
    return sorted(found, key=lambda one: one.at_ns)
