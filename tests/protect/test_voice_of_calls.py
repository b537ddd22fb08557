"""The calls of the study of telephony, on a real server: known harm is found, and all who count agree."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import impaired_voice
import psutil
import pytest
from two_hosts import laboratory_or_skip

from stealtime.protect.laboratory import CLIENT, Laboratory
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.place.native import NativePlace

pytestmark = pytest.mark.protect

_CALLS = 4
_VOICE_S = 3.0
_DELAY_MS = 20
_FIRST_PORT = 28000


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    """Networks without a server."""
    with laboratory_or_skip() as found:
        yield found


def test_known_loss_and_delay_of_voice_are_found_and_sipp_agrees(laboratory: Laboratory, tmp_path: Path) -> None:
    place = NativePlace(laboratory)
    place.start()
    place.await_ready()
    address = laboratory.client.address("clients")
    harming: list[psutil.Popen] = []

    def redirect(destinations: str) -> str:
        argv = [sys.executable, impaired_voice.__file__, address, str(_FIRST_PORT), str(_DELAY_MS)]
        process = laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        harming.append(process)
        process.stdin.write(f"{destinations}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        return "".join(f"{address}:{_FIRST_PORT + 2 * call}\n" for call in range(_CALLS))

    measured = make_calls(place, _CALLS, _VOICE_S, tmp_path, redirect=redirect)
    did = json.loads(harming[0].communicate(timeout=10)[0])

    voice, dialogues = measured.voice, measured.dialogues
    assert voice.invalid == []
    assert (voice.sent, voice.streams, voice.heard) == (_CALLS * 50 * _VOICE_S, _CALLS, _CALLS)
    assert did["voice"] == voice.sent
    assert voice.lost == did["dropped"] == voice.sent // impaired_voice.LOSES_EVERY
    # No packet can be faster than the process that holds it.
    assert voice.delay_ns is not None
    assert voice.delay_ns.min >= _DELAY_MS * 1e6
    assert (voice.duplicated, sum(stream.received for stream in voice.each)) == (0, voice.received)
    # SIPp counts by itself; what was answered and ended is of our reading of its log.
    assert (dialogues.begun, dialogues.answered, dialogues.ended, dialogues.failed) == (_CALLS, _CALLS, _CALLS, 0)
    assert measured.used.server_ns > 0
    place.stop()
