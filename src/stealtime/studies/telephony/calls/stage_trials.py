"""The trial of the probe ``two-stage-call-failover``: hosts of primaries are lost under calls through both stages."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.hosts.guest import Fault
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.calls.fronted import FrontedSignalling, through_fronts
from stealtime.studies.telephony.calls.measuring import hold_of
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Destinations
from stealtime.studies.telephony.calls.results import Dialogues, RegistrationsMeanwhile, Voice
from stealtime.studies.telephony.calls.stage_results import (
    PrimaryCalls,
    TwoStageCallFailover,
    calls_by_primary,
    primary_calls,
)
from stealtime.studies.telephony.calls.trials import AFTER_S, REGISTERED_PER_S
from stealtime.studies.telephony.calls.voice import VoiceOfCalls
from stealtime.studies.telephony.lengths import FIRST_STAGE_CALL
from stealtime.studies.telephony.loads import TwoStageCallFailoverParameters
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.led import Answers, Led
from stealtime.studies.telephony.registrations.load import Load, finish_load, fresh_names
from stealtime.studies.telephony.registrations.two_stages import homes_of, owners_of, users_seen
from stealtime.studies.telephony.results import primaries_lost

_ANSWER_S = 3.0
"""What the answers of calls may be apart besides their beginnings, at all fronts together."""


@dataclass(frozen=True)
class _Talked:
    """Calls that are over, and what happened meanwhile."""

    active: Sequence[MemberStatus]
    """The members of the primaries before the fault."""
    fault: Fault
    destinations: Destinations
    heard: Voice
    dialogues: Dialogues
    kept: frozenset[int]
    """The numbers of the calls whose BYE was answered with 200."""
    answers: Answers
    """Of the phones that registered meanwhile."""


def fail_over_stage_calls(
    place: TwoStagePlace, wanted: TwoStageCallFailoverParameters, plan: CallPlan, before_s: float, folder: Path
) -> TwoStageCallFailover:
    """Have hosts of primaries be lost in the middle of calls, while some phones register.

    Args:
        place: Fronts and primaries; those that are missing are added first.
        wanted: How many there are, which hosts are lost, and how.
        plan: Of the calls, as :func:`.fronted.stage_plan` gives them.
        before_s: How long both ends of each speak before the fault, and for that and three seconds after it.
        folder: For files.

    Raises:
        NotProtectedError: A primary lost its standby before the fault.
        StealtimeError: Calls or voice cannot be had, or a primary does not go on.
    """
    place.fill(wanted.primaries)
    place.go_home()
    seed = random.SystemRandom().getrandbits(32)
    located = place.fronts.locate(phones=plan.calls, seed=seed)
    fronts = through_fronts(located, list(place.fronts.addresses.values()))
    voice_s = 2 * before_s + AFTER_S
    count = round(REGISTERED_PER_S * voice_s)
    led = Led.by_names(place, Load(transport="udp", rate_per_s=REGISTERED_PER_S, count=count, names=fresh_names()))
    with FrontedSignalling(place.client, fronts, plan, folder) as signalling:
        signalling.register()
        talked = _talk(signalling, led, wanted, before_s, folder)
    acknowledged = sorted(talked.answers.answered_ns)
    lost = led.unknown(acknowledged, folder / "asked")
    owners, homes = owners_of(place, acknowledged, folder), homes_of(place)
    died, fault = primaries_lost(wanted.victim, len(place.guests)), talked.fault
    before = [member.host for member in talked.active]
    # As whole as it was before, for the next trial.
    place.revive()
    place.await_protected()
    return TwoStageCallFailover(
        victim=wanted.victim,
        host=fault.died,
        survived=fault.survived,
        fault_ns=fault.struck_ns,
        running_ns=fault.running_ns,
        lost_within_ns=fault.apart_ns,
        clock_error_ns=fault.error_ns,
        seed=seed,
        fronts={one.front: len(one.calls) for one in fronts},
        dialogues=talked.dialogues,
        voice=talked.heard,
        calls=_calls(place, before, talked),
        registrations=RegistrationsMeanwhile(
            sent=len(talked.answers.sent_ns), acknowledged=len(acknowledged), lost=len(lost)
        ),
        users=[
            users_seen(host, own, talked.answers, fault.struck_ns, number < died, homes[number])
            for number, (host, own) in enumerate(zip(before, owners, strict=True))
        ],
    )


def _talk(
    signalling: FrontedSignalling,
    led: Led,
    wanted: TwoStageCallFailoverParameters,
    before_s: float,
    folder: Path,
) -> _Talked:
    """Have all calls up, lose what is to be lost while both ends speak and phones register, and hang up."""
    place, plan, voice_s = led.place, signalling.plan, 2 * before_s + AFTER_S
    active, from_ns = place.await_protected(), time.monotonic_ns()
    relays = [guest.ip_address for guest in place.guests]
    destinations = signalling.call(hold_of(plan, voice_s, _ANSWER_S), relays)
    with VoiceOfCalls(place.client, destinations, voice_s, folder, first=FIRST_STAGE_CALL) as voice:
        running = led.start(folder / "registrations")
        try:
            time.sleep(before_s)
            place.check_protected(active, from_ns)
            lose = place.lose_all_hosts if wanted.victim == "all-primaries" else place.lose_host
            fault = lose(wanted.fault)
            voice.await_last_word()
            last_word_ns = time.monotonic_ns()
            heard = voice.end()
            answers = Answers.of_sipp([finish_load(sipp) for sipp in running])
        finally:
            for sipp in running:
                sipp.end()
    signalling.refuse_hung_up_before(last_word_ns)
    dialogues, kept = signalling.end()
    return _Talked(active, fault, destinations, heard, dialogues, kept, answers)


def _calls(place: TwoStagePlace, before: Sequence[str], talked: _Talked) -> list[PrimaryCalls]:
    """Tell the calls of each primary: the one that relays them."""
    numbers = {guest.ip_address: number for number, guest in enumerate(place.guests)}
    owners = [numbers[relay.rpartition(":")[0]] for relay in talked.destinations.of_callers]
    streams = calls_by_primary(talked.heard.each, owners.__getitem__, len(before))
    return [
        primary_calls(
            host,
            place.guests[number].other_host(host),
            [call for call, owner in enumerate(owners) if owner == number],
            talked.kept,
            streams[number],
        )
        for number, host in enumerate(before)
    ]
