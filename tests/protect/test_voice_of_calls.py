"""The calls of the study of telephony, on a real server: known harm is found, and all who count agree."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import impaired_voice
import psutil
import pytest
from captured_calls import captured_directions, count_messages
from media_tap import Datagram, MediaTap
from two_hosts import laboratory_or_skip

from stealtime.hosts.laboratory import CLIENT, Laboratory
from stealtime.studies.telephony.calls.dialogues import CALLERS_PORT, PHONES_PORT
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.relays import Destinations
from stealtime.studies.telephony.calls.results import Dialogues, Spread
from stealtime.studies.telephony.place.native import NativePlace

pytestmark = pytest.mark.protect

_CALLS = 4
_VOICE_S = 3.0
_DELAY_MS = 20
_FIRST_PORT = 28000
_CLOCKS_NS = 20_000
"""How far the agent's and the tap's comparison of the clocks may be apart."""


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    """Networks without a server."""
    with laboratory_or_skip() as found:
        yield found


def test_known_loss_and_delay_of_one_direction_are_found_and_a_capture_agrees(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    place = NativePlace(laboratory)
    place.start()
    place.await_ready()
    address = laboratory.client.address("clients")
    harming: list[psutil.Popen] = []

    def redirect(destinations: Destinations) -> Destinations:
        argv = [sys.executable, impaired_voice.__file__, address, str(_FIRST_PORT), str(_DELAY_MS)]
        process = laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        harming.append(process)
        process.stdin.write("".join(f"{one}\n" for one in [*destinations.of_callers, ""]).encode())
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        return replace(destinations, of_callers=[f"{address}:{_FIRST_PORT + 2 * call}" for call in range(_CALLS)])

    with MediaTap(laboratory) as tap:
        measured = make_calls(place, CallPlan(_CALLS), _VOICE_S, tmp_path, redirect=redirect)
    did = json.loads(harming[0].communicate(timeout=10)[0])
    datagrams = tap.datagrams()

    voice = measured.voice
    to_phones, to_callers = voice.directions
    each_way = _CALLS * 50 * _VOICE_S
    assert voice.invalid == []
    assert (voice.sent, voice.streams, voice.heard) == (2 * each_way, 2 * _CALLS, 2 * _CALLS)
    assert (to_phones.towards, to_phones.sent, to_callers.sent) == ("phones", each_way, each_way)
    # What phones said never came to the process that does harm.
    assert did["voice"] == each_way
    assert to_phones.lost == did["dropped"] == each_way // impaired_voice.LOSES_EVERY
    assert to_callers.lost == 0
    # No packet can be faster than the process that holds it.
    assert to_phones.delay_ns is not None
    assert to_phones.delay_ns.min >= _DELAY_MS * 1e6
    assert (voice.duplicated, sum(stream.received for stream in voice.each)) == (0, voice.received)
    assert measured.used.server_ns > 0

    captured = captured_directions(datagrams, place.media_address, CallPlan(_CALLS))
    for direction in voice.directions:
        on_wire = captured[direction.towards]
        on_its_way = direction.sent - (did["dropped"] if direction.towards == "phones" else 0)
        assert (on_wire.said, len(on_wire.delays_ns)) == (on_its_way, direction.received), direction.towards
        _agree(direction.delay_ns, on_wire.delay_ns)
    _check_signalling(measured.dialogues, datagrams)
    place.stop()


def _agree(counted: Spread | None, captured: Spread | None) -> None:
    """Both have the kernel's stamp of the same packet, and compare two clocks for themselves."""
    assert counted is not None
    assert captured is not None
    for name, value_ns in captured.model_dump().items():
        # Quartiles are counted to 1 %; those of a capture lie between two packets.
        assert getattr(counted, name) == pytest.approx(value_ns, rel=0.02, abs=_CLOCKS_NS), (name, counted, captured)


def _check_signalling(dialogues: Dialogues, datagrams: list[Datagram]) -> None:
    """SIPp counts by itself, what was answered and ended is of our reading of its log, and the tap counts packets."""
    assert (dialogues.begun, dialogues.answered, dialogues.ended, dialogues.failed) == (_CALLS, _CALLS, _CALLS, 0)
    invited, invited_anew = count_messages(datagrams, "INVITE", source=CALLERS_PORT)
    left, left_anew = count_messages(datagrams, "BYE", source=CALLERS_PORT)
    assert (invited, left, invited_anew + left_anew) == (_CALLS, _CALLS, dialogues.retransmissions)
    for message in ("200 INVITE", "200 BYE"):
        assert count_messages(datagrams, message, destination=CALLERS_PORT)[0] == _CALLS, message
    for message in ("INVITE", "BYE", "ACK"):
        assert count_messages(datagrams, message, destination=PHONES_PORT)[0] == _CALLS, message
    assert count_messages(datagrams, "200 INVITE", source=PHONES_PORT)[1] == dialogues.callee_retransmissions
    assert count_messages(datagrams, "REGISTER")[0] == _CALLS
