"""A server that puts voice from one codec into another dies with its host, for real: the coders go on as they were."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from captured_calls import count_messages
from counting_guest import PATIENT_TIMING
from media_tap import Datagram, MediaTap
from two_hosts import laboratory_or_skip

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.studies.telephony.calls.dialogues import CALLERS_PORT, PHONES_PORT, CallSignalling
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import CallFailover, Transcoded, Voice
from stealtime.studies.telephony.calls.transcoding.voice import VoiceInTwoCodecs
from stealtime.studies.telephony.calls.trials import call_failover
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.model import Place

pytestmark = [
    pytest.mark.protect,
    pytest.mark.truth,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_CALLS = 2
_BEFORE_S = 1.5


def test_transcoded_calls_go_on_when_the_host_dies_and_a_mere_relay_is_found_out(tmp_path: Path) -> None:
    plan = CallPlan(_CALLS, media="transcoding")
    with laboratory_or_skip() as laboratory:
        place = GuestPlace(NamespaceTestbed(laboratory), "transcoding", "net+bypass", timing=PATIENT_TIMING)
        place.start()
        place.await_ready()
        passed_on = _passed_on(place, tmp_path)
        wanted = CallFailoverParameters(mode="net+bypass", streams=2 * _CALLS, media="transcoding")
        failing = tmp_path / "failing"
        failing.mkdir()
        with MediaTap(laboratory) as tap:
            seen = call_failover(place, wanted, plan, _BEFORE_S, failing)
        datagrams = tap.datagrams()

    # The same server passes the same packets on where its phones speak what callers do.
    told = _told(passed_on)
    assert (told.heard, told.passed_on > 0, told.right) == (0, True, 0)
    assert any("the server did not transcode them" in reason for reason in passed_on.invalid)

    _check_it_goes_on(seen)
    _check_on_the_wire(seen, datagrams, place.media_address, plan)


def _passed_on(place: Place, folder: Path) -> Voice:
    """Have ends listen for another codec, in calls that are none of a transcoding server."""
    relayed, own = CallPlan(_CALLS), folder / "passed-on"
    own.mkdir()
    with CallSignalling(place.client, place.address, relayed, own) as signalling:
        signalling.register()
        destinations = signalling.call(4.0).destinations(relayed, place.media_address)
        plan = CallPlan(_CALLS, media="transcoding")
        with VoiceInTwoCodecs(place.client, plan, destinations, 1.0, own) as voice:
            heard = voice.end()
        signalling.end()
    return heard


def _told(voice: Voice) -> Transcoded:
    assert voice.transcoded is not None
    return voice.transcoded


def _check_it_goes_on(seen: CallFailover) -> None:
    voice, told = seen.voice, _told(seen.voice)
    assert voice.invalid == []
    assert (seen.dialogues.answered, seen.dialogues.ended, seen.registrations.lost) == (_CALLS, _CALLS, 0)
    # What came is in the other codec, and says what was said.
    assert (told.phones_codec, told.passed_on) == ("G722", 0)
    assert told.judged > voice.received / 2
    assert told.right >= 0.97 * told.judged
    # The coders of before: their sources and numbers go on.
    assert (told.source_changes, told.renumbered) == (0, 0)
    assert voice.heard == voice.streams == 2 * _CALLS
    assert all(stream.silence_ended and stream.mos is None for stream in voice.each)
    assert seen.gap_ns is not None
    # More came than all that was said before the fault.
    assert all(stream.received > stream.sent / 2 for stream in voice.each)


def _check_on_the_wire(seen: CallFailover, datagrams: Sequence[Datagram], relay: str, plan: CallPlan) -> None:
    """A tap counts the same packets, sees one source of each stream before the fault and after it, and no new offer."""
    came = [one for one in datagrams if one.kind == "rtp" and one.source == relay]
    told = _told(seen.voice)
    assert (len(came), told.odd) == (told.heard + told.passed_on, 0)
    for port in (*plan.caller_ports, *plan.phones):
        own = [one for one in came if one.destination_port == port]
        sources = [
            {one.stream.partition(":")[0] for one in own if (one.at_ns > seen.fault_ns) == is_after}
            for is_after in (False, True)
        ]
        assert len(sources[0]) == 1, port
        assert sources[0] == sources[1], port
    assert count_messages(datagrams, "INVITE", source=CALLERS_PORT)[0] == _CALLS
    assert count_messages(datagrams, "INVITE", destination=PHONES_PORT)[0] == _CALLS
