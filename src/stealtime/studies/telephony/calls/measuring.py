"""One trial of calls: register the phones, set up all calls, let all callers speak, hang up."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stealtime.studies.telephony.calls.dialogues import CallSignalling
from stealtime.studies.telephony.calls.numbers import BEGUN_PER_S, CallNumbers
from stealtime.studies.telephony.calls.results import Dialogues, Voice
from stealtime.studies.telephony.calls.voice import VoiceOfCalls
from stealtime.studies.telephony.place.model import CpuTimes, Place

_BEFORE_S = 0.5
"""From the last answer to the first word: the receiver opens its sockets."""
_AFTER_S = 2.0
"""From the last word to the first BYE: closing reports, and the delay of a server that holds its output."""
_ANSWER_S = 1.0
"""What the answers of calls may be apart besides their beginnings."""


@dataclass(frozen=True)
class Measured:
    """What callers and phones saw, and what the server used while they spoke."""

    dialogues: Dialogues
    voice: Voice
    used: CpuTimes
    elapsed_ns: int
    """Of ``used``."""


def make_calls(
    place: Place,
    calls: int,
    voice_s: float,
    folder: Path,
    *,
    meanwhile: Callable[[], None] | None = None,
    redirect: Callable[[str], str] | None = None,
) -> Measured:
    """Make calls through a server, all at once.

    Args:
        place: Has the server; it answers.
        calls: How many.
        voice_s: How long all callers speak.
        folder: For files.
        meanwhile: Is called when they have begun to speak.
        redirect: Changes where the voice is sent: the destinations, a line each. A test puts itself in between so.

    Raises:
        StealtimeError: Calls or voice cannot be had.
    """
    numbers, client = CallNumbers(calls), place.client
    hold_s = voice_s + calls / BEGUN_PER_S + _ANSWER_S + _BEFORE_S + _AFTER_S
    with CallSignalling(client, place.address, numbers, folder) as signalling:
        signalling.register()
        destinations = signalling.call(hold_s).destinations(numbers.caller_ports, place.media_address)
        before = place.cpu_times()
        with VoiceOfCalls(client, redirect(destinations) if redirect else destinations, voice_s, folder) as voice:
            if meanwhile is not None:
                meanwhile()
            heard = voice.end()
        used, elapsed_ns = place.cpu_times().since(before), time.monotonic_ns() - voice.began_ns
        signalling.refuse_ended()
        return Measured(signalling.end(), heard, used, elapsed_ns)
