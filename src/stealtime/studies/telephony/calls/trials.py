"""The trials of the probes ``call`` and ``call-failover``."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stealtime.hosts.host import FaultKind
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Moment, RegistrationsMeanwhile
from stealtime.studies.telephony.lengths import VOICE_WITHOUT_STANDBY_S
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.parameters import Mode
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
from stealtime.studies.telephony.registrations.losses import Loss, LossOfStandby, begin_at_home, lose
from stealtime.studies.telephony.results import Unprotected
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
_ALONE, _AGAIN = "the server is alone", "it is protected again"
_WITHOUT = {
    "killed": ("the member of the standby is killed", _ALONE, _AGAIN),
    "silent": ("the host of the standby falls silent", _ALONE, _AGAIN),
}
"""The same where a standby is lost."""
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
        work=measured.work,
        standby=measured.standby,
    )


def call_failover(
    place: Place, wanted: CallFailoverParameters, plan: CallPlan, before_s: float, folder: Path
) -> CallFailover:
    """Have a host of the server be lost in the middle of calls, while some phones register.

    Args:
        place: The server; it is protected, or there is another one.
        wanted: Of it, and of its loss.
        plan: Of the calls.
        before_s: How long both ends speak before the fault.
        folder: For files.

    Raises:
        StealtimeError: As ``call``.
    """
    is_standby = wanted.victim == "standby"
    silent_s = before_s if is_standby and wanted.fault == "silent" else 0.0
    voice_s = before_s + silent_s + (VOICE_WITHOUT_STANDBY_S if is_standby else before_s + AFTER_S)
    losses: list[Loss] = []
    registering: list[Sipp] = []
    load = Load(
        transport="udp",
        rate_per_s=REGISTERED_PER_S,
        count=round(REGISTERED_PER_S * voice_s),
        names=fresh_names(),
    )
    begin_at_home(place)
    active, from_ns = place.await_protected(), time.monotonic_ns()

    def fault() -> None:
        registering.append(start_load(place, load, folder / "registrations"))
        time.sleep(before_s)
        place.check_protected(active, from_ns)
        loss = lose(place, active, wanted.victim, wanted.fault)
        losses.append(loss)
        if isinstance(loss, LossOfStandby):
            time.sleep(silent_s)
            loss.come_back()

    try:
        measured = make_calls(place, plan, voice_s, folder, meanwhile=fault)
        registered = finish_load(registering[0])
    finally:
        for sipp in registering:
            sipp.end()
    loss = losses[0]
    lost = unknown_users(place.client, place.address, sorted(registered.answered_ns), folder)
    # As whole as it was before, for the next trial.
    loss.mend()
    answered_ns = list(registered.answered_ns.values())
    told = loss.told(answered_ns)
    to_running_ns = told["fault_to_running_ns"]
    return CallFailover(
        dialogues=measured.dialogues,
        voice=measured.voice,
        victim=wanted.victim,
        unprotected=told.get("unprotected"),
        registrations=RegistrationsMeanwhile(
            sent=len(registered.sent_ns),
            acknowledged=len(registered.answered_ns),
            lost=len(lost),
            silence_ns=silence_ns(answered_ns, registered.unanswered_ns, loss.struck_ns),
            silence_before_ns=longest_gap_ns(answered_ns, loss.struck_ns),
        ),
        fault_ns=loss.struck_ns,
        running_ns=None if to_running_ns is None else loss.struck_ns + to_running_ns,
        moments=_moments(_happened(loss, told, place.mode, wanted.fault), registered, loss.struck_ns),
        clock_error_ns=told["clock_error_ns"],
    )


def _happened(loss: Loss, told: Mapping[str, Any], mode: Mode, kind: FaultKind) -> list[Moment]:
    """Give what became of the server, as its hosts tell."""
    struck_ns = loss.struck_ns
    without: Unprotected | None = told.get("unprotected")
    if without is None:
        words = _TAKEN["replicated" if mode == "replicated" else kind]
        times_ns = (0, told["fault_to_detection_ns"], told["fault_to_running_ns"])
    else:
        words = _WITHOUT[kind]
        times_ns = (0, without.fault_to_alone_ns, without.fault_to_protected_ns)
    return [
        Moment(what=what, at_ns=struck_ns + after_ns) for what, after_ns in zip(words, times_ns, strict=True) if what
    ]


def _moments(happened: Sequence[Moment], registered: Registered, struck_ns: int) -> list[Moment]:
    """Put what happened in its order; what callers and phones heard is told by the voice."""
    found = list(happened)
    answers = sorted(registered.answered_ns.values())
    before = [at_ns for at_ns in answers if at_ns < struck_ns]
    after = [at_ns for at_ns in answers if at_ns >= struck_ns]
    if before:
        found.append(Moment(what="last registration answered before", at_ns=before[-1]))
    if after:
        found.append(Moment(what="first registration answered", at_ns=after[0]))
    return sorted(found, key=lambda one: one.at_ns)
