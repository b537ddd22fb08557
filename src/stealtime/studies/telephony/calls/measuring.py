"""One trial of calls: register the phones, set up all calls, let both ends of each speak, hang up."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.hosts.checkpoints import Checkpoints, checkpoints_of
from stealtime.hosts.client import Client
from stealtime.hosts.host import CpuTimes
from stealtime.studies.telephony.calls.dialogues import CallSignalling
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Destinations
from stealtime.studies.telephony.calls.results import Dialogues, HostOfCalls, Voice
from stealtime.studies.telephony.calls.transcoding.voice import VoiceInTwoCodecs
from stealtime.studies.telephony.calls.voice import LEAD_S, VoiceOfCalls
from stealtime.studies.telephony.generators.work import StandbyUse, Work
from stealtime.studies.telephony.lengths import BEGUN_PER_S
from stealtime.studies.telephony.place.model import HostUse, Place

_BEFORE_S = LEAD_S + 0.3
"""From the last answer to the first word: both ends open their sockets."""
_PROGRAMS_S = 3.0
"""The same of ends that say tones: their program and what it needs take so long to begin on a busy machine."""
_AFTER_S = 2.0
"""From the last word to the first BYE: closing reports, and the delay of a server that holds its output."""
_ANSWER_S = 1.0
"""What the answers of calls may be apart besides their beginnings."""
_ANSWER_APART_S = 5.0
"""The same where signalling asks a relay on another machine, and each answer may wait for three checkpoints."""


@dataclass(frozen=True)
class Measured:
    """What callers and phones saw, and what the server used while they spoke."""

    dialogues: Dialogues
    voice: Voice
    used: CpuTimes
    elapsed_ns: int
    """Of ``used``."""
    checkpoints: Checkpoints | None
    """Meanwhile; None also where something else went on in between."""
    hosts: list[HostOfCalls]
    """What each host used, by what ran there at first."""
    work: Work | None = None
    """Meanwhile."""
    standby: StandbyUse | None = None
    """Meanwhile; None where something else went on in between."""


def make_calls(
    place: Place,
    plan: CallPlan,
    voice_s: float,
    folder: Path,
    *,
    meanwhile: Callable[[], None] | None = None,
    redirect: Callable[[Destinations], Destinations] | None = None,
) -> Measured:
    """Make calls through a server, all at once.

    Args:
        place: Has the server; it answers.
        plan: Of the calls.
        voice_s: How long both ends of each speak.
        folder: For files.
        meanwhile: Is called when they have begun to speak; it returns before they end.
        redirect: Changes where the voice is sent. A test puts itself in between so.

    Raises:
        StealtimeError: Calls or voice cannot be had.
    """
    client = place.client
    answer_s = _ANSWER_S if place.media_address == place.address else _ANSWER_APART_S
    hold_s = hold_of(plan, voice_s, answer_s)
    with CallSignalling(client, place.address, plan, folder) as signalling:
        signalling.register()
        destinations = signalling.call(hold_s).destinations(plan, place.media_address)
        to = redirect(destinations) if redirect else destinations
        with _voice(client, plan, to, voice_s, folder) as voice:
            members, hosts_before, passed = place.members(), place.use_by_host(), client.traffic()
            before, began_ns = place.cpu_times(), time.monotonic_ns()
            if meanwhile is not None:
                meanwhile()
            voice.await_last_word()
            last_word_ns = time.monotonic_ns()
            used, elapsed_ns = place.cpu_times().since(before), time.monotonic_ns() - began_ns
            hosts = hosts_of(hosts_before, place.use_by_host())
            passes = client.traffic()
            traffic = None if passes is None or passed is None else passes.since(passed)
            # After a fault these members are not there any more.
            epochs = place.epochs_since(members, began_ns) if meanwhile is None else []
            memory = place.standby_memory() if meanwhile is None else None
            heard = voice.end()
        signalling.refuse_hung_up_before(last_word_ns)
        return Measured(
            dialogues=signalling.end(),
            voice=heard,
            used=used,
            elapsed_ns=elapsed_ns,
            checkpoints=checkpoints_of(epochs, elapsed_ns),
            # No call begins or ends meanwhile, so no connection is opened.
            work=Work.of(traffic, 0),
            hosts=hosts,
            standby=StandbyUse.of(used.standby_ns, memory) if meanwhile is None else None,
        )


def hold_of(plan: CallPlan, voice_s: float, answer_s: float) -> float:
    """Give for how long calls are up that all are to be up while both ends of each speak.

    Args:
        plan: Of the calls.
        voice_s: How long they speak.
        answer_s: What their answers may be apart besides their beginnings.
    """
    before_s = _BEFORE_S + (_PROGRAMS_S if plan.media == "transcoding" else 0.0)
    return voice_s + plan.calls / BEGUN_PER_S + answer_s + before_s + _AFTER_S


def hosts_of(before: Mapping[str, HostUse], after: Mapping[str, HostUse]) -> list[HostOfCalls]:
    """Give what each host used between two looks; one that was not there before, or is not any more, is left out."""
    found = []
    for name, use in before.items():
        if name in after:
            used = after[name].used.since(use.used)
            found.append(HostOfCalls(host=name, runs=list(use.runs), guests_ns=used.server_ns, side_ns=used.host_ns))
    return found


def _voice(
    client: Client, plan: CallPlan, destinations: Destinations, voice_s: float, folder: Path
) -> VoiceOfCalls | VoiceInTwoCodecs:
    """Have both ends of all calls speak: marked packets where the server passes them on, else what survives it."""
    if plan.media == "transcoding":
        return VoiceInTwoCodecs(client, plan, destinations, voice_s, folder)
    return VoiceOfCalls(client, destinations, voice_s, folder)
