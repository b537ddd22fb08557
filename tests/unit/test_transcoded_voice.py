"""Voice that a server puts into another codec: which packet of its stream each one is, and that it was transcoded."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stealtime.studies.telephony.calls.results import Transcoded, Voice
from stealtime.studies.telephony.calls.transcoding.codecs import G722, PACKET_SAMPLES, PCMU, Codec
from stealtime.studies.telephony.calls.transcoding.listening import Records, voice_of
from stealtime.studies.telephony.calls.transcoding.melody import (
    FREQUENCIES_HZ,
    NO_TONE,
    PACKETS_OF_MELODY,
    PACKETS_OF_TONE,
    melody,
    packets,
    tones,
)
from stealtime.studies.telephony.calls.transcoding.talking import BEYOND, PACKET_NS, due, name_of

_MS = 1_000_000
_BEGINS_NS = 5_000 * _MS
_STREAMS, _PACKETS = 2, 200
_DELAY_NS = 30 * _MS
_SILENCE = 0xFF


@dataclass(frozen=True)
class _Packet:
    """What came of a packet that was said."""

    number: int
    payload: bytes
    at_ns: int
    payload_type: int
    sequence: int
    timestamp: int
    source: int = 7


def _transcoded(end: str, stream: int, codec: Codec, delay_ns: int = _DELAY_NS) -> list[_Packet]:
    """Give all of a stream in another codec, with numbers of the server's own that begin anew in between."""
    held, said = packets(codec), melody(name_of(end, stream))
    return [
        _Packet(
            number,
            held[said[number % PACKETS_OF_MELODY]],
            due(_BEGINS_NS, stream, number, _STREAMS) + delay_ns,
            codec.payload_type,
            (65_500 + number) % 65_536,
            (2**32 - 3_200 + number * PACKET_SAMPLES) % 2**32,
        )
        for number in range(_PACKETS)
    ]


def _records(heard: dict[int, list[_Packet]]) -> Records:
    """Give what an end wrote down that said all in time, and heard this of the streams of the other one."""
    rows = [
        (stream, one.at_ns, one.payload_type, one.sequence, one.timestamp, one.source)
        for stream, own in heard.items()
        for one in own
    ]
    payloads = b"".join(one.payload for own in heard.values() for one in own)
    said = range(_PACKETS + BEYOND)
    sent_ns = [[due(_BEGINS_NS, stream, number, _STREAMS) for number in said] for stream in range(_STREAMS)]
    return Records(
        np.array(sent_ns, dtype=np.int64),
        np.array(rows, dtype=np.int64).reshape(-1, 6),
        np.frombuffer(payloads, dtype=np.uint8).reshape(-1, PACKET_SAMPLES),
        _BEGINS_NS,
    )


def _voice(of_callers: dict[int, list[_Packet]]) -> Voice:
    """Give the voice where phones hear this of the callers, and callers everything of the phones."""
    phones = {stream: _transcoded("phones", stream, PCMU) for stream in range(_STREAMS)}
    return voice_of(_records(phones), _records(of_callers), (PCMU, G722))


def _whole() -> dict[int, list[_Packet]]:
    return {stream: _transcoded("callers", stream, G722) for stream in range(_STREAMS)}


def _told(voice: Voice) -> Transcoded:
    assert voice.transcoded is not None
    return voice.transcoded


@pytest.mark.parametrize("codec", [PCMU, G722], ids=lambda codec: codec.name)
def test_each_packet_tells_its_tone_and_noise_or_another_codec_tells_none(codec: Codec) -> None:
    held = np.array([np.frombuffer(one, dtype=np.uint8) for one in packets(codec)])
    assert tones(codec, held, held).tolist() == list(range(len(FREQUENCIES_HZ)))
    other = PCMU if codec is G722 else G722
    assert set(tones(other, held, held).tolist()) == {NO_TONE}
    noise = np.random.default_rng(1).integers(0, 256, (50, PACKET_SAMPLES), dtype=np.uint8)
    assert set(tones(codec, noise, noise).tolist()) == {NO_TONE}
    silence = np.full((1, PACKET_SAMPLES), _SILENCE, dtype=np.uint8)
    assert tones(PCMU, silence, silence).tolist() == [NO_TONE]


def test_u_law_is_that_of_the_recommendation() -> None:
    # ITU-T G.711, table 2a: the largest value, the smallest ones, and the ends of a segment.
    codes = np.array([0x80, 0x8F, 0xF0, 0xFF, 0x7F, 0x00], dtype=np.uint8)
    assert PCMU.decode(codes).tolist() == [32124, 16764, 120, 0, 0, -32124]
    every = np.arange(-32_768, 32_768)
    assert np.abs(PCMU.decode(PCMU.encode(every)) - every).max() <= 32_768 - 32_124
    # Within a sixteenth of its segment.
    inner = np.arange(-30_000, 30_000)
    assert (np.abs(PCMU.decode(PCMU.encode(inner)) - inner) <= np.abs(inner) // 32 + 8).all()


def test_no_two_streams_have_a_melody_of_which_the_other_is_a_part() -> None:
    names = [name_of(end, stream) for end in ("callers", "phones") for stream in range(25)]
    melodies = np.array([melody(name) for name in names])
    for place in range(len(names)):
        for shift in range(PACKETS_OF_MELODY):
            same = (melodies == np.roll(melodies[place], shift)).mean(axis=1)
            same[place] = 0.0
            assert same.max() < 0.6, (names[place], shift)
        # A place of its own in the stream, too: half a tone beside it much is wrong.
        own = [float((melodies[place] == np.roll(melodies[place], by)).mean()) for by in range(1, PACKETS_OF_MELODY)]
        assert max(own) <= 1 - 1 / PACKETS_OF_TONE


def test_a_stream_in_the_other_codec_is_heard_packet_by_packet() -> None:
    voice = _voice(_whole())
    told = _told(voice)
    assert (voice.invalid, voice.limits) == ([], [])
    assert (voice.streams, voice.heard, voice.sent, voice.received, voice.lost) == (4, 4, 800, 800, 0)
    assert (told.phones_codec, told.heard, told.passed_on, told.odd) == ("G722", 800, 0, 0)
    assert 0.7 * 800 < told.judged == told.right
    assert (told.source_changes, told.renumbered) == (0, 0)
    assert voice.delay_ns is not None
    assert (voice.delay_ns.min, voice.delay_ns.max) == (_DELAY_NS, _DELAY_NS)
    assert (voice.late, voice.reordered, voice.duplicated, voice.jitter_ns, voice.mos) == (0, 0, 0, 0.0, [])
    assert voice.silence_ns == PACKET_NS


def test_a_server_that_merely_passes_voice_on_has_not_transcoded_it() -> None:
    passed_on = {stream: _transcoded("callers", stream, PCMU) for stream in range(_STREAMS)}
    voice = _voice(passed_on)
    assert _told(voice).passed_on == 400
    assert "the server did not transcode them" in voice.invalid[0]
    # Nor has one that only writes another payload type over it.
    renamed = {
        stream: [replace(one, payload_type=G722.payload_type) for one in own] for stream, own in passed_on.items()
    }
    voice = _voice(renamed)
    assert _told(voice).passed_on == 0
    assert _told(voice).right < 0.6 * _told(voice).judged
    assert "something else" in voice.invalid[0]


def test_streams_that_are_exchanged_are_found_out() -> None:
    first, second = _whole().values()
    voice = _voice({0: second, 1: first})
    assert _told(voice).right < 0.8 * _told(voice).judged
    assert "something else" in voice.invalid[0]


def test_loss_duplicates_order_and_lateness_are_counted_to_the_packet() -> None:
    heard = _whole()
    own = heard[0]
    lost = {20, 90, 91, 92}
    late = replace(own[50], at_ns=own[50].at_ns + 70 * _MS)
    again = replace(own[60], at_ns=own[60].at_ns + 1)
    heard[0] = [late if one.number == 50 else one for one in own if one.number not in lost] + [again]
    voice = _voice(heard)
    to_phones = voice.directions[0]
    assert (to_phones.towards, to_phones.sent, to_phones.lost, to_phones.late) == ("phones", 400, 4, 1)
    assert (voice.duplicated, voice.reordered, voice.directions[1].lost) == (1, 1, 0)
    # Numbers and timestamps have the same holes.
    assert (_told(voice).renumbered, voice.invalid) == (0, [])
    assert (voice.silence_ns, voice.silence_began_ns) == (4 * PACKET_NS, own[89].at_ns)


def test_a_stream_that_falls_silent_for_good_has_not_ended_its_silence() -> None:
    heard = _whole()
    heard[1] = [one for one in heard[1] if one.number < 150]
    voice = _voice(heard)
    silent = [one for one in voice.each if not one.silence_ended]
    assert [(one.towards, one.received) for one in silent] == [("phones", 150)]
    assert voice.silence_ns == 50 * PACKET_NS - _DELAY_NS
    # Of one that was never heard there is nothing to tell but that.
    voice = _voice({0: _whole()[0]})
    assert (voice.streams, voice.heard, voice.directions[0].lost) == (4, 3, 200)


def test_a_coder_that_begins_anew_is_seen() -> None:
    heard = _whole()
    own = heard[0]
    heard[0] = [replace(one, source=8, sequence=one.number, timestamp=0) if one.number >= 100 else one for one in own]
    heard[0] = [
        replace(one, timestamp=1_000 + one.number * PACKET_SAMPLES) if one.source == 8 else one for one in heard[0]
    ]
    heard[1] = [replace(one, sequence=(one.sequence + 9) % 65_536) if one.number >= 100 else one for one in heard[1]]
    voice = _voice(heard)
    assert (_told(voice).source_changes, _told(voice).renumbered) == (1, 1)
    # What it says is still what was said.
    assert (voice.invalid, voice.lost) == ([], 0)


@pytest.mark.parametrize("delay_ms", [1, 19, 300, 1_500])
def test_a_delay_of_less_than_a_melody_is_known(delay_ms: int) -> None:
    heard = {stream: _transcoded("callers", stream, G722, delay_ms * _MS) for stream in range(_STREAMS)}
    delay_ns = _voice(heard).directions[0].delay_ns
    assert delay_ns is not None
    assert (delay_ns.min, delay_ns.median) == (delay_ms * _MS, delay_ms * _MS)


def test_a_longer_delay_is_known_where_later_packets_took_less() -> None:
    # The first 2 s of voice come together, 3 s after they began: more than a melody, and what follows takes 1 s.
    def late(own: list[_Packet]) -> list[_Packet]:
        return [replace(one, at_ns=max(one.at_ns, _BEGINS_NS + 3_000 * _MS)) for one in own]

    voice = _voice({stream: late(_transcoded("callers", stream, G722, 1_000 * _MS)) for stream in range(_STREAMS)})
    assert (voice.lost, _told(voice).odd, voice.invalid) == (0, 0, [])
    delay_ns = voice.directions[0].delay_ns
    assert delay_ns is not None
    assert (delay_ns.min, delay_ns.max) == (1_000 * _MS, 3_000 * _MS)


def test_voice_that_was_said_late_is_invalid_and_such_that_jitters_limited() -> None:
    callers, phones = (
        _records({stream: _transcoded(end, stream, codec) for stream in range(_STREAMS)})
        for end, codec in (("phones", PCMU), ("callers", G722))
    )
    # Their packets came 30 ms after they were due, whenever they were sent.
    for late_ms, invalid, limits in ((21, 1, 1), (2, 0, 1)):
        late = replace(callers, sent_ns=callers.sent_ns + late_ms * _MS)
        voice = voice_of(late, phones, (PCMU, G722))
        assert (len(voice.invalid), len(voice.limits)) == (invalid, limits)
        assert voice.sender_late_p99_ns == late_ms * _MS


def _signal(frequency_hz: float) -> NDArray[np.int64]:
    at = np.arange(8 * PACKET_SAMPLES) / 8000
    return np.round(4000 * np.sin(2 * np.pi * frequency_hz * at)).astype(np.int64)[np.newaxis]


@pytest.mark.parametrize("frequency_hz", [250.0, 1234.0, 3000.0])
def test_g722_gives_back_what_it_was_given(frequency_hz: float) -> None:
    signal = _signal(frequency_hz)
    error = (G722.decode(G722.encode(signal)) - signal)[:, 2 * PACKET_SAMPLES :]
    # 6 bits a sample with an adaptive step: some 40 dB.
    assert (error**2).mean() < 1e-3 * (signal**2).mean()
